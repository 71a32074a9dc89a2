# SPDX-License-Identifier: Apache-2.0
# A pipeline schedule: one row per stage, one box per pass over a micro-batch, white where the stage idles.
# $boxes: begin, end, row, colour    $thin: the same, too thin for borders    $names: middle, row, text
# rows, row_step (every so many rows are named), row_name_size, label_size     last (time)    left, right (of the picture)
# legends, legend_1, legend_colour_1 ..
set xlabel 'time'
set lmargin at screen left
set rmargin at screen right
set key at screen 0.5, screen 0.07 center top horizontal maxrows 1 font ',11' width 4
set bmargin at screen 0.17
set grid noy x
set xrange [0 : last]
set yrange [rows - 0.4 : -0.6]
row_font = sprintf(',%.2f', row_name_size)
set ytics scale 0 font row_font
unset border
set border 1 linecolor rgb '#444444'
set ytics ()
do for [i = 0 : rows - 1 : int(row_step)] { set ytics add (sprintf('stage %d', i) i) }
plot $boxes using 1:3:1:2:($3 - 0.45):($3 + 0.45):4 with boxxyerror fillstyle solid 1.0 border rgb '#FFFFFF' \
       linecolor rgb variable linewidth 0.5 notitle, \
     $thin using 1:3:1:2:($3 - 0.45):($3 + 0.45):4 with boxxyerror fillstyle solid 1.0 noborder \
       linecolor rgb variable notitle, \
     $names using 1:2:3 with labels font sprintf(',%.2f', label_size) textcolor rgb '#FFFFFF' notitle, \
     for [i = 1 : legends] NaN with boxes fillstyle solid 1.0 linecolor rgb value(sprintf('legend_colour_%d', i)) \
       title value(sprintf('legend_%d', i))
