# SPDX-License-Identifier: Apache-2.0
# Predicted against executed, one point per case, with the 1:1 line and the band of 5 % around it.
# $cases  index i = series i: executed, predicted     n  series     title_1 .. title_n
# unit (of both axes), low, high (of both axes), log_axes
set size square
set lmargin at screen 0.25
set rmargin at screen 0.77
set key inside bottom right vertical font ',11'
set xlabel 'executed: '.unit
set ylabel 'predicted: '.unit
set grid x y linecolor rgb '#E4E4E4' linewidth 1 linetype 1
if (log_axes) {
  set logscale x 10
  set logscale y 10
}
set format x '%g'
set format y '%g'
set xrange [low : high]
set yrange [low : high]
plot '+' using 1:($1 * 0.95):($1 * 1.05) with filledcurves fillcolor rgb '#777777' fillstyle transparent solid 0.18 \
       noborder title 'within 5 %', \
     x with lines linecolor rgb '#444444' linewidth 1.4 title 'predicted = executed', \
     for [i = 0 : n - 1] $cases index i using 1:2 with points linecolor rgb series[i % 8 + 1] \
       pointtype (i % 2 == 0 ? 7 : 5) pointsize 1.1 title value(sprintf('title_%d', i + 1))
