# SPDX-License-Identifier: Apache-2.0
# How busy every link was, over the drawing of one node.
# $used, $idle  index per lane of a cable: x, y, per cent of the time     $labels  x, y, per cent
# $boxes  vertices: x, y, half width, half height, colour, name           heading
unset border
unset tics
unset grid
unset key
set lmargin 3
set rmargin 12
set bmargin 3
set xrange [-10 : 1010]
set yrange [0 : 620]
set cbrange [0 : 100]
set palette defined (0 '#BFD9EE', 15 '#56B4E9', 40 '#F0E442', 70 '#E69F00', 85 '#D55E00', 100 '#7A0019')
set cblabel 'per cent of the time (each direction keeps right)'
set cbtics 0, 20, 100
set colorbox vertical user origin 0.915, 0.18 size 0.018, 0.62
set style fill solid 1.0 border rgb '#444444'
set style textbox opaque noborder margins 0.4, 0.4 fillcolor rgb '#FFFFFF'
plot $idle using 1:2 with lines linecolor rgb '#DADADA' linewidth 1.4, \
     $used using 1:2:3 with lines linecolor palette linewidth 4, \
     $labels using 1:2:3 with labels boxed font ',9' textcolor rgb '#222222', \
     $boxes using 1:2:3:4:5 with boxxyerror linecolor rgb variable, \
     $boxes using 1:2:6 with labels font ',12' textcolor rgb '#111111'
