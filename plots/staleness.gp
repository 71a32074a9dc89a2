# SPDX-License-Identifier: Apache-2.0
# How old the parameters were that gradients were computed on, in versions: one cluster of bars per version.
# $bins  index i = series i: versions, share in per cent     n     title_1 .. title_n
# most (versions), shares (1: there is room for the share above each bar)
set xlabel 'staleness in versions'
set ylabel 'share of gradients, %'
set key at screen 0.5, screen 0.905 center top horizontal font ',11' width 4
set tmargin at screen 0.8
set yrange [0 : *]
set offsets 0, 0, graph 0.05, 0
set xrange [-0.7 : most + 0.7]
set style fill solid 0.85 noborder
width = 0.8 / n
set boxwidth width * 0.92
if (most <= 24) { set xtics 1 }
plot for [i = 0 : n - 1] $bins index i using ($1 + (i - (n - 1) / 2.0) * width):2 with boxes \
       linecolor rgb series[i % 8 + 1] title value(sprintf('title_%d', i + 1)), \
     for [i = 0 : n - 1] $bins index i using ($1 + (i - (n - 1) / 2.0) * width):(shares ? $2 : NaN): \
       (sprintf($2 < 9.95 ? '%.1f' : '%.0f', $2)) with labels offset 0,0.7 font ',10' notitle
