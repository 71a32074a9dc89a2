# SPDX-License-Identifier: Apache-2.0
# What decides between the first two of a plan: how far each input moves the second's value over the first's.
# $bars  row (1 on top), from, to, colour     $names  row, name, from, in words, to, in words
# count (rows)     low, high (of the ratios)     log_axes     ratio (as expected), ratio_title     axis (title)
# first_title, second_title     name_points (size of the names)     name_room (share of the picture that they take)
set xlabel axis
unset ylabel
set lmargin at screen name_room
set rmargin at screen 0.96
set bmargin at screen 0.13
set tmargin at screen 0.82
set key at screen 0.5, screen 0.89 center top horizontal font ',11' width 2
set yrange [count + 0.6 : 0.4]
set xrange [low : high]
if (log_axes) {
  set logscale x 2
  set xtics ()
  do for [k = -20 : 20] { do for [m in '1 1.5'] { set xtics add (sprintf('%g', m * 2.0 ** k) m * 2.0 ** k) } }
}
names_font = sprintf(',%.2f', name_points)
set ytics font names_font
set grid x noy
set arrow 1 from 1, graph 0 to 1, graph 1 nohead linecolor rgb '#444444' linewidth 1.6
set arrow 2 from ratio, graph 0 to ratio, graph 1 nohead linecolor rgb '#444444' linewidth 1.4 dashtype '--' front
half = count < 3 ? 0.18 : 0.28
set style fill solid 1.0 noborder
plot $bars using 2:1:2:3:($1 - half):($1 + half):4 with boxxyerror linecolor rgb variable notitle, \
     $names using 3:1:yticlabels(2) with points pointtype 0 notitle, \
     $names using 3:1:4 with labels right offset -0.7, 0 font ',11' notitle, \
     $names using 5:1:6 with labels left offset 0.7, 0 font ',11' notitle, \
     NaN with boxes fillcolor rgb '#0072B2' title first_title, \
     NaN with boxes fillcolor rgb '#E69F00' title second_title, \
     NaN with lines linecolor rgb '#444444' linewidth 1.4 dashtype '--' title ratio_title
