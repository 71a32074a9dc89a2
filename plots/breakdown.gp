# SPDX-License-Identifier: Apache-2.0
# Where one iteration's time goes: stacked bars in milliseconds.
# $bars: label, one column a part, total text, total
# parts, part_1, part_colour_1 ...; heading, rotation (degrees of the labels), margin (lines below the axis)
set title heading offset 0,1.8
set tmargin 6
set key at graph 0.5, 1.075 center horizontal maxrows 1 width -0.5 font ',11'
set ylabel 'milliseconds per iteration'
set style data histograms
set style histogram rowstacked
set style fill solid 1.0 border rgb '#FFFFFF'
set boxwidth 0.62 relative
set yrange [0 : *]
set offsets 0, 0, graph 0.05, 0
set xtics rotate by rotation right
if (rotation == 0) { set xtics norotate center }
set bmargin margin
plot for [i = 1 : parts] $bars using (column(i + 1)):xtic(1) title value(sprintf('part_%d', i)) \
       linecolor rgb value(sprintf('part_colour_%d', i)), \
     '' using 0:(column(parts + 3)):(strcol(parts + 2)) with labels offset 0,0.7 font ',11' notitle
