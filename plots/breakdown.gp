# Where one iteration's time goes: stacked bars in milliseconds.
# $bars: label, compute, exposed communication, input, idle, total text, total
# heading, rotation (degrees of the labels), margin (lines below the axis)
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
plot $bars using 2:xtic(1) title 'compute' linecolor rgb '#4C78A8', \
     '' using 3 title 'exposed communication' linecolor rgb '#F58518', \
     '' using 4 title 'waiting for input' linecolor rgb '#54A24B', \
     '' using 5 title 'idle' linecolor rgb '#C9C4C0', \
     '' using 0:7:6 with labels offset 0,0.7 font ',11' notitle
