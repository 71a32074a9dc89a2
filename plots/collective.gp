# SPDX-License-Identifier: Apache-2.0
# Bus bandwidth of one collective over its size, both axes logarithmic.
# $predicted  bytes, GB/s, low, high     $bound  bytes, GB/s (if bounded)     $measured  bytes, GB/s (if compared)
# from, to (bytes), bounded, compared
set xlabel 'size of the buffer'
set ylabel 'bus bandwidth, GB/s'
set key inside bottom right vertical
set logscale x 2
set logscale y 10
size_text(b) = b < 1024 ? sprintf('%g B', b) : b < 1048576 ? sprintf('%g KiB', b / 1024.0) : \
  b < 1073741824 ? sprintf('%g MiB', b / 1048576.0) : sprintf('%g GiB', b / 1073741824.0)
first = ceil(log(from) / log(2))
step = 1 + int((log(to) / log(2) - first) / 12)
set xtics ()
do for [k = first : 60 : step] { set xtics add (size_text(2.0 ** k) 2.0 ** k) }
set xrange [from : to]
set format y '%g'
plot $predicted using 1:3:4 with filledcurves fillcolor rgb series[1] fillstyle transparent solid 0.16 noborder \
       title '90 % interval', \
     $predicted using 1:2 with lines linecolor rgb series[1] linewidth 2.6 title 'predicted', \
     $bound using (bounded ? $1 : NaN):2 with lines linecolor rgb '#777777' linewidth 1.4 dashtype '--' \
       title (bounded ? 'what the links allow' : ''), \
     $measured using (compared ? $1 : NaN):2 with points linecolor rgb series[2] pointtype 7 pointsize 1.1 \
       title (compared ? 'measured' : '')
