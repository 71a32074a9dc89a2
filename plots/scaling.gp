# SPDX-License-Identifier: Apache-2.0
# Throughput over devices, one line per series with its 90 % band and its ideal line.
# $points  index i = series i: devices, samples/s, low, high, ideal     n  series     title_1 .. title_n
# heading, ideal (what the ideal lines are), most_devices, log_axes, $ticks (devices of all series)
set title heading
set xlabel 'devices'
set ylabel 'samples per second'
set key inside top left vertical
set format y "%'.0f"
if (log_axes) {
  set logscale x 2
  set logscale y
  set format y '%.0f'
  set xrange [0.9 : most_devices * 1.1]
} else {
  set xrange [0 : most_devices * 1.04]
  set yrange [0 : *]
}
set xtics ()
do for [i = 1 : |$ticks|] { set xtics add ($ticks[i] $ticks[i] + 0) }
plot for [i = 0 : n - 1] $points index i using 1:3:4 with filledcurves \
       fillcolor rgb series[i % 8 + 1] fillstyle transparent solid 0.16 noborder notitle, \
     for [i = 0 : n - 1] $points index i using 1:5 with lines \
       linecolor rgb series[i % 8 + 1] linewidth 1.2 dashtype '--' notitle, \
     for [i = 0 : n - 1] $points index i using 1:2 with linespoints \
       linecolor rgb series[i % 8 + 1] linewidth 2.6 pointtype 7 pointsize 1.2 title value(sprintf('title_%d', i + 1)), \
     NaN with lines linecolor rgb '#777777' linewidth 1.2 dashtype '--' title ideal, \
     NaN with boxes fillcolor rgb '#777777' fillstyle transparent solid 0.16 noborder title '90 % interval'
