# SPDX-License-Identifier: Apache-2.0
# How busy every link was, over the drawing of one node.
# $used, $idle  index per lane of a cable: x, y, per cent of the time     $labels  x, y, per cent
# $boxes  x, y, half width, half height, colour, name, 1 where a box is drawn     letters (size of the names)
# number_size (of the labels)     kinds (the use by kind of link, in words), kinds_size
unset border
unset tics
unset grid
unset key
set lmargin at screen 0.04
set rmargin at screen 0.88
set bmargin at screen 0.085
set label 3 kinds at screen 0.5, screen 0.04 center font sprintf(',%.2f', kinds_size)
set xrange [0 : 1000]
set yrange [0 : 600]
set cbrange [0 : 100]
set palette defined (0 '#BFD9EE', 15 '#56B4E9', 40 '#F0E442', 70 '#E69F00', 85 '#D55E00', 100 '#7A0019')
set cblabel 'per cent of the time (each direction keeps right)'
set cbtics 0, 20, 100
set colorbox vertical user origin 0.915, 0.18 size 0.018, 0.62
set style fill solid 1.0 border rgb '#444444'
set style textbox opaque noborder margins 0.4, 0.4 fillcolor rgb '#FFFFFF'
letters_font = sprintf(',%.2f', letters)
number_font = sprintf(',%.2f', number_size)
plot $idle using 1:2 with lines linecolor rgb '#DADADA' linewidth 1.4, \
     $used using 1:2:3 with lines linecolor palette linewidth 4, \
     $labels using 1:2:3 with labels boxed font number_font textcolor rgb '#222222', \
     $boxes using ($7 > 0 ? $1 : NaN):2:3:4:5 with boxxyerror linecolor rgb variable, \
     $boxes using 1:2:6 with labels font letters_font textcolor rgb '#111111'
