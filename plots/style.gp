# SPDX-License-Identifier: Apache-2.0
# Shared look of all pictures. The writer (pictures/gnuplot.cpp) sets the terminal, then the variables and data
# blocks that each template names in its head, then loads this file and the template.
# For all: heading, subheading (both centred over the picture), heading_size, subheading_size
set encoding utf8
set datafile separator "\t"
set border 3 linecolor rgb '#444444' linewidth 1
set tics nomirror out scale 0.6 textcolor rgb '#222222'
set grid y linecolor rgb '#DDDDDD' linewidth 1 linetype 1
set label 1 heading at screen 0.5, screen 0.962 center font sprintf(',%.2f', heading_size)
set label 2 subheading at screen 0.5, screen 0.921 center font sprintf(',%.2f', subheading_size) textcolor rgb '#555555'
set lmargin at screen 0.1
set rmargin 4
set bmargin 4.5
set tmargin at screen 0.885
set key samplen 2 spacing 1.2 Left reverse noopaque
set ylabel offset -1,0
# Series, in the order of the reports (Okabe-Ito: told apart by colour-blind readers too), each with a mark of
# its own.
array series[8] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#7F7F7F', '#222222']
array marks[8] = [6, 4, 8, 12, 10, 14, 2, 1]
# A number with a comma between thousands, and ticks so written from 0 to `high` on a linear axis.
grouped(v) = v < 1000 ? sprintf('%.6g', v) : v < 1e6 ? sprintf('%d,%03d', int(v / 1000), int(v) % 1000) : \
  sprintf('%d,%03d,%03d', int(v / 1e6), int(v / 1000) % 1000, int(v) % 1000)
# Where an axis of numbers up to `high` leaves room for them and for its name, of the picture's width.
left_of(high) = strlen(grouped(high)) > 5 ? 0.05 + 0.0095 * strlen(grouped(high)) : 0.1
round_step(x) = x / 10.0 ** floor(log10(x)) < 2 ? 10.0 ** floor(log10(x)) : \
  x / 10.0 ** floor(log10(x)) < 5 ? 2 * 10.0 ** floor(log10(x)) : 5 * 10.0 ** floor(log10(x))
