#!/bin/bash
# Makes a small pool of Debian packages, each a program with a menu entry, a description and an
# icon, and what appstream-generator has to be told to read it. The same files each time.
# Usage: tests/d/real/pool.sh FOLDER. Called by tests/d/real/programs.sh.
set -euo pipefail
folder=$1
rm -rf "$folder"
mkdir -p "$folder/archive/dists/sample/main/binary-amd64" "$folder/archive/pool"
cd "$folder"

# A picture of 64 by 64 points.
base64 --decode >icon.png <<'END'
iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAOklEQVR42u3MQRGAMBAAsZNSKUhB
SqUgBSmVwmdVMImAzGTlyp2dJ29ORiAQCAQCgUAgEAgEAsHfgw9goQBqiIAa6AAAAABJRU5ErkJg
gg==
END
list=archive/dists/sample/main/binary-amd64/Packages
for number in $(seq 1 24); do
    name=sample$number root=root/$number
    share=$root/usr/share
    mkdir -p "$root/DEBIAN" "$share/applications" "$share/metainfo" \
        "$share/icons/hicolor/64x64/apps"
    cat >"$root/DEBIAN/control" <<END
Package: $name
Version: 1.$number
Architecture: amd64
Maintainer: Sample <sample@example.org>
Section: utils
Priority: optional
Description: program number $number
 It shows a number.
END
    cat >"$share/applications/org.example.$name.desktop" <<END
[Desktop Entry]
Type=Application
Name=Sample $number
Name[de]=Beispiel $number
Comment=Shows the number $number
Exec=$name
Icon=$name
Categories=Utility;TextTools;
END
    cat >"$share/metainfo/org.example.$name.metainfo.xml" <<END
<?xml version="1.0" encoding="UTF-8"?>
<component type="desktop-application">
  <id>org.example.$name</id>
  <metadata_license>CC0-1.0</metadata_license>
  <project_license>MIT</project_license>
  <name>Sample $number</name>
  <summary>Shows the number $number</summary>
  <description>
    <p>It shows the number $number in a window, until the window is closed.</p>
    <ul><li>It is small.</li><li>It has no options.</li></ul>
  </description>
  <launchable type="desktop-id">org.example.$name.desktop</launchable>
  <url type="homepage">https://example.org/$name</url>
  <releases><release version="1.$number" date="2026-01-01"/></releases>
</component>
END
    cp icon.png "$share/icons/hicolor/64x64/apps/$name.png"
    (cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
    deb=pool/${name}_1.${number}_amd64.deb
    SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group --build "$root" "archive/$deb" >/dev/null
    cat "$root/DEBIAN/control" - >>"$list" <<END
Filename: $deb
Size: $(stat --format=%s "archive/$deb")

END
done
xz --keep "$list"
cat >asgen-config.json <<END
{"ProjectName": "Sample", "ArchiveRoot": "$PWD/archive", "Backend": "debian",
 "MediaBaseUrl": "http://localhost/media", "HtmlBaseUrl": "http://localhost/html",
 "Features": {"noDownloads": true, "optimizePNGSize": false, "metadataTimestamps": false},
 "Suites": {"sample": {"sections": ["main"], "architectures": ["amd64"]}}}
END
