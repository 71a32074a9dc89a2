# SPDX-License-Identifier: Apache-2.0
# Throughput over devices, one line per series with its ideal line and, of few series, its 90 % band.
# $points  index i = series i: devices, samples/s, low, high, ideal     n  series     title_1 .. title_n
# ideal (what the ideal lines are), bands (0: too many series), $ticks (devices of all series)
# log_axes, least_devices, most_devices, low, high (of the rates)
set xlabel 'devices'
set ylabel 'samples per second'
set key inside top left vertical
set lmargin at screen left_of(high * 1.5)
if (log_axes) {
  set logscale x 2
  set logscale y
  set xrange [least_devices / 1.15 : most_devices * 1.15]
  set yrange [low / 1.5 : high * 1.5]
  set ytics ()
  do for [k = -6 : 12] { do for [m in '1 2 5'] { set ytics add (grouped(m * 10.0 ** k) m * 10.0 ** k) } }
} else {
  set xrange [0 : most_devices * 1.04]
  set yrange [0 : high * 1.05]
  step = round_step(high / 4)
  set ytics ()
  do for [k = 0 : 10] { set ytics add (grouped(k * step) k * step) }
}
set xtics ()
do for [i = 1 : |$ticks|] { set xtics add ($ticks[i] $ticks[i] + 0) }
plot for [i = 0 : n - 1] $points index i using 1:(bands ? $3 : NaN):4 with filledcurves \
       fillcolor rgb series[i % 8 + 1] fillstyle transparent solid 0.16 noborder notitle, \
     for [i = 0 : n - 1] $points index i using 1:5 with lines \
       linecolor rgb series[i % 8 + 1] linewidth 1.2 dashtype '--' notitle, \
     for [i = 0 : n - 1] $points index i using 1:2 with linespoints \
       linecolor rgb series[i % 8 + 1] linewidth 2.4 pointtype marks[i % 8 + 1] pointsize 1.4 \
       title value(sprintf('title_%d', i + 1)), \
     NaN with lines linecolor rgb '#777777' linewidth 1.2 dashtype '--' title ideal, \
     NaN with boxes fillcolor rgb '#777777' fillstyle transparent solid 0.16 noborder \
       title (bands ? '90 % interval' : '')
