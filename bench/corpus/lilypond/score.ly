\version "2.22.0"
voice = \relative c' { \repeat unfold 25 { c8( d e f g a b c) | c16 b a g f e d c d e f g a b c d | } }
\score { \new StaffGroup << \new Staff \voice \new Staff { \clef bass \transpose c c, \voice } >> \layout { } }
#(display "laid out")
