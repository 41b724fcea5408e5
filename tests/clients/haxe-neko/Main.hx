// Haxe's library and what Haxe makes of its classes, on Neko's virtual machine and so on libgc.
import haxe.ds.StringMap;

typedef Point = {x:Float, y:Float};

interface Shape {
	function area():Float;
}

class Square implements Shape {
	final side:Float;

	public function new(side) this.side = side;

	public function area() return side * side;
}

class Circle implements Shape {
	final radius:Float;

	public function new(radius) this.radius = radius;

	public function area() return 3 * radius * radius;
}

enum Tree<T> {
	Leaf;
	Node(left:Tree<T>, value:T, right:Tree<T>);
}

class Main {
	static function insert(tree:Tree<Int>, value:Int):Tree<Int> {
		return switch tree {
			case Leaf: Node(Leaf, value, Leaf);
			case Node(left, here, right) if (value < here): Node(insert(left, value), here, right);
			case Node(left, here, right): Node(left, here, insert(right, value));
		}
	}

	static function sum(tree:Tree<Int>):Int {
		return switch tree {
			case Leaf: 0;
			case Node(left, value, right): (sum(left) + value + sum(right)) % 1000003;
		}
	}

	static function fails(depth:Int):Int {
		if (depth == 0)
			throw "bottom";
		return fails(depth - 1) + 1;
	}

	static function main() {
		var tree = Leaf, seed = 1;
		for (i in 0...20000) {
			seed = (seed * 1103 + 12345) % 65536;
			tree = insert(tree, seed);
		}
		Sys.println("tree: " + sum(tree));

		var counts = new StringMap<Int>();
		for (i in 0...50000) {
			var word = "word" + (i * 7) % 503;
			counts.set(word, (counts.exists(word) ? counts.get(word) : 0) + 1);
		}
		var keys = [for (key in counts.keys()) key];
		keys.sort(Reflect.compare);
		Sys.println("words: " + keys.length + " " + keys[17] + " " + counts.get(keys[17]));

		var shapes:Array<Shape> = [for (i in 0...1000) i % 2 == 0 ? new Square(i) : new Circle(i)];
		Sys.println("shapes: " + Lambda.fold(shapes, (shape, total) -> shape.area() + total, 0.0));

		var steps = [for (i in 0...2000) (n:Int) -> (n + i * 3) % 10007];
		var value = 0;
		for (round in 0...20)
			for (step in steps)
				value = step(value);
		Sys.println("closures: " + value);

		var buffer = new StringBuf();
		for (i in 0...5000)
			buffer.add("item " + i + ";");
		var text = ~/item ([0-9]+);/g.map(buffer.toString(), match -> Std.parseInt(match.matched(1)) % 9 + ",");
		Sys.println("text: " + text.length + " " + haxe.crypto.Md5.encode(text));

		var caught = 0;
		for (i in 0...300) {
			try {
				fails(i % 50);
			} catch (error:String) {
				caught++;
			}
		}
		Sys.println("caught: " + caught);

		var points:Array<Point> = [for (i in 0...3000) {x: i, y: i * 0.5}];
		var json = haxe.Json.stringify({name: "points", points: points});
		var back:{name:String, points:Array<Point>} = haxe.Json.parse(json);
		Sys.println("json: " + json.length + " " + back.points.length + " " + back.points[2999].y);

		var copy:Array<Point> = haxe.Unserializer.run(haxe.Serializer.run(points));
		Sys.println("copied: " + (copy.length == points.length && copy[123].y == points[123].y));
	}
}
