# SPDX-License-Identifier: Apache-2.0
# Where one iteration's time goes: stacked bars, those of a series side by side.
# $bars: x, devices, one column a part, total text, total
# unit (of time)     groups, group_text_1, group_x_1, group_line_1, group_size_1 ... (what stands below the bars), group_lines
# parts, part_1, part_colour_1 ...; last (x of the last bar), high (of all totals), letters (size of the totals)
set key at screen 0.5, screen 0.91 center top horizontal font ',11' width 4
set tmargin at screen 0.83
set ylabel unit . ' per iteration'
set style fill solid 1.0 border rgb '#FFFFFF'
set boxwidth 0.72
set xrange [-0.8 : last + 0.8]
set yrange [0 : high * 1.08]
set lmargin at screen left_of(high * 1.08)
step = round_step(high / 4)
set ytics ()
do for [k = 0 : 10] { set ytics add (grouped(k * step) k * step) }
count_font = sprintf(',%.2f', letters + 1)
set xtics scale 0 font count_font
set bmargin 4.5 + 1.25 * group_lines
set xlabel 'devices' offset 0, -1.25 * group_lines
do for [i = 1 : groups] {
  set label 10 + i value(sprintf('group_text_%d', i)) center \
      at first value(sprintf('group_x_%d', i)), graph 0 offset 0, -2.4 - 1.25 * value(sprintf('group_line_%d', i)) \
      font sprintf(',%.2f', value(sprintf('group_size_%d', i)))
}
plot for [i = parts : 1 : -1] $bars using 1:(sum [j = 1 : i] column(j + 2)):xtic(2) with boxes \
       linecolor rgb value(sprintf('part_colour_%d', i)) notitle, \
     for [i = 1 : parts] NaN with boxes linecolor rgb value(sprintf('part_colour_%d', i)) \
       title value(sprintf('part_%d', i)), \
     $bars using 1:(column(parts + 4)):(strcol(parts + 3)) with labels offset 0,0.7 \
       font sprintf(',%.2f', letters) notitle
