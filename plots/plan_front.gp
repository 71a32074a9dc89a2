# SPDX-License-Identifier: Apache-2.0
# Candidates of a plan, time against money or power, with their intervals; those that none beats in both are joined.
# $points  x, y, x low, x high, y low, y high, colour, mark     $front  x, y     $numbers  x, y (parts of the plot), rank, colour
# $lines  x, y, dx, dy (parts of the plot): from points to numbers that are not next to them     number_points
# x_title, x_low, x_high, x_log, x_limit (-1: none), and so y_...     left, right, bottom, top (of the picture)
# rented, reserved, spot, bought, unpriced: 1 where there are such     rows, row_1, row_colour_1, row_mark_1, row_figures_1 .., row_points
set lmargin at screen left
set rmargin at screen right
set bmargin at screen bottom
set tmargin at screen top
set key at screen 0.5 * (left + right), screen 0.085 center top horizontal maxrows 1 font ',11' width 2
set xlabel x_title
set ylabel y_title
set grid x y linecolor rgb '#E4E4E4' linewidth 1 linetype 1
set xrange [x_low : x_high]
set yrange [y_low : y_high]
set x2range [0 : 1]
set y2range [0 : 1]
decades(low, high) = log10(high / low)
marks_of(low, high) = decades(low, high) > 5 ? '1' : decades(low, high) > 2 ? '1 3' : decades(low, high) > 1.2 ? '1 2 5' : '1 1.5 2 3 4 5 7'
if (x_log) {
  set logscale x 10
  set xtics ()
  do for [k = -6 : 12] { do for [m in marks_of(x_low, x_high)] { set xtics add (grouped(m * 10.0 ** k) m * 10.0 ** k) } }
} else {
  x_step = round_step(x_high / 4)
  set xtics ()
  do for [k = 0 : 10] { set xtics add (grouped(k * x_step) k * x_step) }
}
if (y_log) {
  set logscale y 10
  set ytics ()
  do for [k = -6 : 12] { do for [m in marks_of(y_low, y_high)] { set ytics add (grouped(m * 10.0 ** k) m * 10.0 ** k) } }
} else {
  y_step = round_step(y_high / 4)
  set ytics ()
  do for [k = 0 : 10] { set ytics add (grouped(k * y_step) k * y_step) }
}
two_lines = rows <= 13
row_room = two_lines ? 0.053 : rows > 18 ? 0.7 / rows : 0.037
do for [i = 1 : rows] {
  set label 100 + i value(sprintf('row_%d', i)) at screen right + 0.032, screen top - 0.012 - (i - 1) * row_room left \
    font sprintf(',%.2f', row_points) textcolor rgb value(sprintf('row_colour_%d', i)) \
    point pointtype int(value(sprintf('row_mark_%d', i))) pointsize 1 linecolor rgb value(sprintf('row_colour_%d', i)) offset 1, -0.3
  if (two_lines) { set label 200 + i value(sprintf('row_figures_%d', i)) at screen right + 0.066, screen top - 0.036 - (i - 1) * row_room left \
    font ',9' textcolor rgb '#555555' }
}
if (x_limit > 0) { set arrow 1 from x_limit, graph 0 to x_limit, graph 1 nohead linecolor rgb '#B00020' linewidth 1.6 dashtype '--' }
if (y_limit > 0) { set arrow 2 from graph 0, first y_limit to graph 1, first y_limit nohead linecolor rgb '#B00020' linewidth 1.6 dashtype '--' }
number_font = sprintf(',%.2f', number_points)
bar(c) = int(c) + 0x90000000
full(m, wanted) = int(m) == wanted ? 1 : NaN
plot $points using 1:2:3:4:5:6:(bar($7)) with xyerrorbars linecolor rgb variable linewidth 1.2 pointtype 0 notitle, \
     $front using 1:2 with steps linecolor rgb '#0072B2' linewidth 1.6 title 'unbeaten', \
     $lines using 1:2:3:4 axes x2y2 with vectors nohead linecolor rgb '#999999' linewidth 0.8 notitle, \
     for [m in '7 13 9 5 3'] $points using ($1 * full($8, m + 0)):2:7 with points linecolor rgb variable pointtype (m + 0) \
       pointsize (|$points| > 24 ? 0.9 : 1.4) notitle, \
     $numbers using 1:2:3:4 axes x2y2 with labels center font number_font textcolor rgb variable notitle, \
     NaN with points linecolor rgb '#444444' pointtype 7 pointsize 1.4 title (rented ? 'rented' : ''), \
     NaN with points linecolor rgb '#444444' pointtype 13 pointsize 1.4 title (reserved ? 'reserved' : ''), \
     NaN with points linecolor rgb '#444444' pointtype 9 pointsize 1.4 title (spot ? 'spot' : ''), \
     NaN with points linecolor rgb '#444444' pointtype 5 pointsize 1.4 title (bought ? 'bought' : ''), \
     NaN with points linecolor rgb '#444444' pointtype 3 pointsize 1.4 title (unpriced ? 'no price' : ''), \
     NaN with lines linecolor rgb '#B00020' linewidth 1.6 dashtype '--' title (x_limit > 0 || y_limit > 0 ? 'limit' : '')
