# SPDX-License-Identifier: Apache-2.0
# Predicted over published rates, both axes logarithmic, a colour for each generation of devices.
# $rates  published, predicted, number of the generation, 1 where nothing was set on the row
# n, title_1 ... title_n, low, high (of both axes)
set xlabel 'published, samples/s'
set ylabel 'predicted without anchor, samples/s'
set key inside top left vertical
set logscale xy 10
set format x '%g'
set format y '%g'
set xrange [low:high]
set yrange [low:high]
set grid x
title_of(i) = value(sprintf('title_%d', i))
plot x with lines linecolor rgb '#222222' linewidth 1.2 notitle, \
     1.2 * x with lines linecolor rgb '#777777' linewidth 1 dashtype '--' title 'within 20 %', \
     x / 1.2 with lines linecolor rgb '#777777' linewidth 1 dashtype '--' notitle, \
     for [i = 1:n] $rates using ($3 == i && $4 == 0 ? $1 : NaN):2 with points linecolor rgb series[i] \
       pointtype 6 pointsize 0.7 notitle, \
     for [i = 1:n] $rates using ($3 == i && $4 == 1 ? $1 : NaN):2 with points linecolor rgb series[i] \
       pointtype 7 pointsize 0.8 title title_of(i)
