# A made up set of packages with dependencies, overlays and closures, primes, sorting, text and JSON.
let
  inherit (builtins) attrNames attrValues concatStringsSep elemAt filter foldl' fromJSON genList
    hashString head length listToAttrs map match replaceStrings sort stringLength substring tail toJSON toString;

  mod = a: b: a - b * (a / b);
  range = from: to: genList (i: from + i) (to - from + 1);
  sum = foldl' (a: b: a + b) 0;
  fix = f: let x = f x; in x;

  count = 6000;
  name = i: "package${toString i}";
  make = final: i: {
    name = name i;
    version = "${toString (mod i 7)}.${toString (mod i 13)}";
    dependencies = map (d: final.${name d})
      (filter (d: d < i && d >= 0) [ (i / 2) (i / 3) (i - 17) (mod (i * 31) count) ]);
    size = mod (i * 7919) 1000;
  };
  base = final: listToAttrs (map (i: { name = name i; value = make final i; }) (range 0 (count - 1)));
  overlay = final: previous: previous // listToAttrs (map
    (i: { name = name (i * 10); value = previous.${name (i * 10)} // { version = "overlaid"; size = 1; }; })
    (range 0 (count / 10 - 1)));
  packages = fix (final: overlay final (base final));

  closure = package:
    let
      go = seen: one:
        if seen ? ${one.name} then seen
        else foldl' go (seen // { ${one.name} = one.size; }) one.dependencies;
    in go { } package;
  closures = map (i: closure packages.${name i}) [ 100 777 1234 1499 ];

  primes = upTo:
    let sieve = list: if list == [ ] then [ ] else
      let p = head list; in
      if p * p > upTo then list else [ p ] ++ sieve (filter (n: mod n p != 0) (tail list));
    in sieve (range 2 upTo);

  numbers = n: (foldl' (state: _: rec {
    seed = mod (state.seed * 1103 + 12345) 65536;
    all = state.all ++ [ seed ];
  }) { seed = 1; all = [ ]; } (range 1 n)).all;

  words = map (i: "word-${toString (mod (i * 13) 97)}") (range 0 20000);
  counts = foldl' (all: word: all // { ${word} = (all.${word} or 0) + 1; }) { } words;

  json = toJSON (map (p: { inherit (p) name version size; needs = map (d: d.name) p.dependencies; }) (attrValues packages));
  back = fromJSON json;
  sorted = sort (a: b: a < b) (numbers 3000);
  ackermann = m: n: if m == 0 then n + 1 else if n == 0 then ackermann (m - 1) 1 else ackermann (m - 1) (ackermann m (n - 1));
in {
  closures = map (c: { packages = length (attrNames c); size = sum (attrValues c); }) closures;
  overlaid = length (filter (p: p.version == "overlaid") (attrValues packages));
  primes = let all = primes 30000; in { count = length all; last = elemAt all (length all - 1); };
  counts = { kinds = length (attrNames counts); sum = sum (attrValues counts); hash = hashString "sha256" (toJSON counts); };
  json = { length = stringLength json; hash = hashString "sha256" json; same = toJSON back == json; };
  sorted = { low = head sorted; middle = elemAt sorted 750; sum = sum sorted; };
  text = substring 0 60 (replaceStrings [ "word-" ] [ "w" ] (concatStringsSep " " words));
  matched = length (filter (w: match "word-[1-3][0-9]*" w != null) words);
  ackermann = ackermann 2 60;
}
