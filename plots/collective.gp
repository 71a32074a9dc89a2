# SPDX-License-Identifier: Apache-2.0
# Bus bandwidth of one collective over its size, both axes logarithmic.
# $predicted  bytes, GB/s, low, high     $bound  bytes, GB/s (if bounded)     $measured  bytes, GB/s (if compared)
# heading, bounded, compared
set title heading
set xlabel 'bytes'
set ylabel 'bus bandwidth, GB/s'
set key inside bottom right vertical
set logscale x 2
set logscale y 10
set format x '%.0b %BB'
set format y '%g'
plot $predicted using 1:3:4 with filledcurves fillcolor rgb series[1] fillstyle transparent solid 0.16 noborder \
       title '90 % interval', \
     $predicted using 1:2 with lines linecolor rgb series[1] linewidth 2.6 title 'predicted', \
     $bound using (bounded ? $1 : NaN):2 with lines linecolor rgb '#777777' linewidth 1.4 dashtype '--' \
       title (bounded ? 'what the links allow' : ''), \
     $measured using (compared ? $1 : NaN):2 with points linecolor rgb series[2] pointtype 7 pointsize 1.1 \
       title (compared ? 'measured' : '')
