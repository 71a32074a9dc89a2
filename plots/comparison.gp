# SPDX-License-Identifier: Apache-2.0
# How many times faster one side of a comparison is, a row for each model and device count: the ratio with its
# interval, and what changing only the devices, or only the links and the host, gives.
# $rows   place (1 on top), ratio, low, high, only devices or NaN, only links and host or NaN, name, ratio in words
# count (rows)     low, high (of the ratios)     log_axes     axis (title)     parts (1: some row has them)
# name_points (size of the names)     name_room (share of the picture that they take)
set xlabel axis
unset ylabel
set lmargin at screen name_room
set tmargin at screen 0.83
set key at screen 0.5, screen 0.9 center top horizontal font ',11' width 2
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
set arrow 1 from 1, graph 0 to 1, graph 1 nohead linecolor rgb '#444444' linewidth 1.4
plot $rows using (parts ? $5 : NaN):1 with points linecolor rgb series[2] linewidth 2 pointtype marks[2] pointsize 1.5 \
       title (parts ? 'only the devices changed' : ''), \
     $rows using (parts ? $6 : NaN):1 with points linecolor rgb series[3] linewidth 2 pointtype marks[3] pointsize 1.7 \
       title (parts ? 'only links and host changed' : ''), \
     $rows using 2:1:3:4:yticlabels(7) with xerrorbars linecolor rgb series[1] linewidth 2.4 pointtype 7 pointsize 1.4 \
       title (parts ? 'both, with the 90 % interval' : 'the ratio, with its 90 % interval'), \
     $rows using 2:1:8 with labels offset 0,0.9 font ',11' notitle
