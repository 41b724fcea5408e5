# Asks `neap heap` of two snapshots of a client with a known graph (`client graph OLD NEW`): sizes,
# what is retained, paths and the difference are exact. With the word `sites`, also where objects
# were allocated. Usage: heap.py NEAP OLD NEW [sites]. Called by run.sh.
import json
import subprocess
import sys

neap, old, new = sys.argv[1:4]


def heap(*arguments):
    return subprocess.run([neap, "heap", *arguments], capture_output=True, text=True)


def asked(*arguments):
    done = heap("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sizes(objects, size, retained):
    return {"objects": objects, "bytes": size, "retained": retained}


said = asked(old)
types = {row["name"]: row["sizes"] for row in said["types"]}
node = next(name for name in types if name.startswith("layout"))
assert node.endswith(": 2 of 3 words scanned"), node
assert types[node] == sizes(1000, 32000, 144000), types[node]
assert types["leaf, 112 bytes"] == sizes(1000, 112000, 112000), types
handles = [root for root in said["roots"] if root["name"] == "(handles)"]
assert len(handles) == 1 and handles[0]["pointers"] == 1, said["roots"]
assert 200 <= handles[0]["retained"] <= 256, handles
# No cell of a thread's that was not handed out is alive, whether the thread is there or not.
for snapshot in said, asked(new):
    assert all(root["name"] != "(uncollectable objects)" for root in snapshot["roots"]), snapshot["roots"]

# The list's first node has all the others; each text is one step behind its node.
first = asked(old, "--of", node, "--rows", "1")["objects"][0]
assert first["retained"] == 144000 and len(first["path"]) == 2, first
assert first["path"][0] == "variable list of client", first
texts = asked(old, "--of", "leaf, 112 bytes", "--rows", "1000000")["objects"]
assert sorted(len(text["path"]) for text in texts) == list(range(3, 1003))
assert {text["path"][0] for text in texts} == {"variable list of client"}
# An address within an object is the object's.
same = asked(old, "--address", hex(first["address"] + 9))["objects"]
assert same == [first], same

changes = {row["name"]: row for row in asked("--compare", old, new)["types"]}
assert node not in changes and "leaf, 112 bytes" not in changes, changes
(name, change), = [row for row in changes.items() if row[0].startswith("leaf")]
assert (change["old"]["objects"], change["new"]["objects"]) == (0, 10), change
kept = {row["path"][0] for row in asked(new, "--of", name)["objects"]}
wanted = {"variable more" + (f"+{8 * place}" if place else "") + " of client"
          for place in range(10)}
assert kept == wanted, kept

text = heap(old, "--of", node, "--rows", "1").stdout
assert "\n  variable list of client\n" in text, text
assert "128" not in heap("--compare", old, old).stdout
if "sites" in sys.argv[4:]:
    sites = [row for row in said["sites"] if row["name"].startswith("make_graph (client.c:")]
    assert [row["sizes"]["objects"] for row in sites] == [1000, 1000], said["sites"]

# What is wrong is said.
refused = heap(old, "--address", "0x10")
assert refused.returncode == 2 and "no live object at 0x10" in refused.stderr, refused
cut = old + ".cut"
with open(old, "rb") as whole, open(cut, "wb") as part:
    part.write(whole.read()[:-100])
refused = heap(cut)
assert refused.returncode == 2 and "not a heap snapshot, or cut" in refused.stderr, refused
