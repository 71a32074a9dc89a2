# SPDX-License-Identifier: Apache-2.0
# Gantt chart of a few iterations: one row per lane of an instance, one box per op.
# $boxes: start ms, end ms, row, colour        $names: middle ms, row, text (boxes wide enough to hold it)
# $rows_data: row, text     $marks: ms, top row, height (iteration borders)      legend_1, legend_colour_1 ..; legends      rows, last, heading
# dense (1: boxes too thin for borders)     left (margin in letters)
set title heading font ',14'
set xlabel 'milliseconds'
set lmargin left
set key outside bottom center horizontal maxrows 1 width -0.5 font ',12'
set bmargin 6
set grid noy x
set xrange [0 : last]
set yrange [rows + 0.6 : -0.7]
set ytics scale 0
unset border
set border 1 linecolor rgb '#444444'
set ytics ()
if (dense) { set style fill solid 1.0 noborder } else { set style fill solid 1.0 border rgb '#FFFFFF' }
plot $marks using 1:2:(0):3 with vectors nohead linecolor rgb '#888888' dashtype '--' notitle, \
     $boxes using 1:3:1:2:($3 - 0.4):($3 + 0.4):4 with boxxyerror linecolor rgb variable linewidth 0.5 notitle, \
     $names using 1:2:3 with labels font ',9' textcolor rgb '#FFFFFF' notitle, \
     $rows_data using (0):1:ytic(2) with points pointsize 0 notitle, \
     for [i = 1 : legends] NaN with boxes linecolor rgb value(sprintf('legend_colour_%d', i)) title value(sprintf('legend_%d', i))
