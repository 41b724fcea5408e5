@main[][i;j;hash;table;text;list;tree;sum]
^rem{ Strings that are put together and taken apart. }
$hash[^hash::create[]]
^for[i](1;20000){
	$hash.[key^eval($i % 500)](^hash.[key^eval($i % 500)].int(0) + $i)
}
$sum(0)
^hash.foreach[key;value]{^sum.inc($value)}
hash: ^hash._count[] $sum
$text[^for[i](1;3000){word^eval($i * 7 % 101)}[ ]]
$list[^text.split[ ]]
^memory:compact[]
words: ^list.count[] ^text.length[]
$table[^table::create{name	number	square
^for[i](1;2000){name$i	^eval($i * 31 % 997)	^eval($i * $i)}[
]}]
^table.sort($table.number)
table: ^table.count[] $table.name $table.square
^table.sort{$table.name}[desc]
sorted: $table.name
tree: ^count[^tree(12)]
^for[i](1;40){$tree[^tree(8)]^memory:compact[]}
replaced: ^rewrite[$text]
fibonacci: ^fibonacci(17)
^page(400)

@tree[depth][result]
$result[^hash::create[]]
$result.depth($depth)
^if($depth > 0){
	$result.left[^tree($depth - 1)]
	$result.right[^tree($depth - 1)]
}

@count[tree][result]
^if(def $tree.left){$result(1 + ^count[$tree.left] + ^count[$tree.right])}{$result(1)}

@rewrite[text][result]
$result[^text.replace[word;w]]
$result[^result.length[] ^result.left(30)]

@fibonacci[n][result]
^if($n < 2){$result($n)}{$result(^fibonacci($n - 1) + ^fibonacci($n - 2))}

@page[rows][i;row]
<table>
^for[i](1;$rows){<tr><td>$i</td><td>^eval($i / 7)[%.3f]</td><td>^i.format[%05d]</td></tr>
}</table>
