# SPDX-License-Identifier: Apache-2.0
# One node of a machine: boxes and the cables between them, coloured by kind, the wider the faster.
# $lines  x, y, class; an empty row between cables
# classes, class_1 (its text), class_colour_1 (of the series), class_width_1 ...
# $boxes  x, y, half width, half height, colour, name, 1 where a box is drawn     letters (size of the names)
unset border
unset tics
unset grid
set key at screen 0.5, screen 0.1 center top horizontal maxrows 2 font ',11' width 4
set lmargin at screen 0.05
set rmargin at screen 0.95
set bmargin at screen 0.11
set xrange [0 : 1000]
set yrange [0 : 600]
set style fill solid 1.0 border rgb '#444444'
letters_font = sprintf(',%.2f', letters)
plot for [i = 1 : classes] $lines using 1:(int($3) == i ? $2 : NaN) with lines \
       linewidth value(sprintf('class_width_%d', i)) linecolor rgb series[int(value(sprintf('class_colour_%d', i)))] \
       title value(sprintf('class_%d', i)), \
     $boxes using ($7 > 0 ? $1 : NaN):2:3:4:5 with boxxyerror linecolor rgb variable notitle, \
     $boxes using 1:2:6 with labels font letters_font textcolor rgb '#111111' notitle
