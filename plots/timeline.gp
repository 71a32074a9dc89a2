# SPDX-License-Identifier: Apache-2.0
# Gantt chart of a few iterations: one row per lane of an instance, one box per op.
# $boxes: start, end, row, colour    $thin: the same, too thin for borders
# $names: middle, row, text (boxes wide enough to hold it)    $marks: time, top row, height (iteration borders)
# rows, row_1 .. (their names)     row_name_size, label_size     last (time), unit    left, right (of the picture)
# legends, legend_1, legend_colour_1 ..
set xlabel unit
step = round_step(last / 5)
set xtics ()
do for [k = 0 : 12] { set xtics add (grouped(k * step) k * step) }
set lmargin at screen left
set rmargin at screen right
set key at screen 0.5, screen 0.07 center top horizontal maxrows 1 font ',11' width 4
set bmargin at screen 0.17
set grid noy x
set xrange [0 : last]
set yrange [rows - 0.4 : -0.7]
row_font = sprintf(',%.2f', row_name_size)
set ytics scale 0 font row_font
unset border
set border 1 linecolor rgb '#444444'
set ytics ()
do for [i = 1 : rows] { set ytics add (value(sprintf('row_%d', i)) i - 1) }
plot $marks using 1:2:(0):3 with vectors nohead linecolor rgb '#888888' dashtype '--' notitle, \
     $boxes using 1:3:1:2:($3 - 0.4):($3 + 0.4):4 with boxxyerror fillstyle solid 1.0 border rgb '#FFFFFF' \
       linecolor rgb variable linewidth 0.5 notitle, \
     $thin using 1:3:1:2:($3 - 0.4):($3 + 0.4):4 with boxxyerror fillstyle solid 1.0 noborder \
       linecolor rgb variable notitle, \
     $names using 1:2:3 with labels font sprintf(',%.2f', label_size) textcolor rgb '#FFFFFF' notitle, \
     for [i = 1 : legends] NaN with boxes fillstyle solid 1.0 linecolor rgb value(sprintf('legend_colour_%d', i)) \
       title value(sprintf('legend_%d', i))
