# SPDX-License-Identifier: Apache-2.0
# How old the parameters were that gradients were computed on, in versions: one cluster of bars per version.
# $bins  index i = series i: versions, share in per cent     n     title_1 .. title_n     heading
set title heading
set xlabel 'staleness in versions'
set ylabel 'share of gradients, %'
set title offset 0,1.8
set tmargin 6
set key at graph 0.5, 1.075 center horizontal
set yrange [0 : *]
set xrange [-0.7 : most + 0.7]
set style fill solid 0.85 noborder
width = 0.8 / n
set boxwidth width
if (most <= 24) { set xtics 1 }
plot for [i = 0 : n - 1] $bins index i using ($1 + (i - (n - 1) / 2.0) * width):2 with boxes \
       linecolor rgb series[i % 8 + 1] title value(sprintf('title_%d', i + 1))
