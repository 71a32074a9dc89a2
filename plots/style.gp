# SPDX-License-Identifier: Apache-2.0
# Shared look of all pictures. The writer (app/pictures/gnuplot.cpp) sets the terminal, then the variables and data
# blocks that each template names in its head, then loads this file and the template.
set encoding utf8
set datafile separator "\t"
set border 3 linecolor rgb '#444444' linewidth 1
set tics nomirror out scale 0.6 textcolor rgb '#222222'
set grid y linecolor rgb '#DDDDDD' linewidth 1 linetype 1
set key outside top center horizontal Left reverse samplen 2 spacing 1.2 noopaque
set title offset 0,0.3 font ',16'
set lmargin 11
set rmargin 4
set bmargin 4.5
# Series, in the order of the reports (Okabe-Ito: told apart by colour-blind readers too).
array series[8] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#7F7F7F', '#222222']
