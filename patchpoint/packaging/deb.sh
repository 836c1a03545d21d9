# shellcheck shell=bash disable=SC2154
# Sourced by scripts that make Debian's packages. They export:
#   out: the folder of the packages; tree: that of one package's files; copyright: the file of its licences
#   epoch: the time of every file in seconds since 1970; maintainer: NAME <ADDRESS>

# put MODE FILE PLACE: installs a file at PLACE below the package's prefix.
put() { install -D -m "$1" "$2" "$tree/$3"; }
packed() { gzip -9n >"$tree/$1"; }
# of_one_time FOLDER: sets every file's time, since archives keep it.
of_one_time() { find "$1" -exec touch --no-dereference --date "@$epoch" {} +; }
# depends PROGRAM…: the packages with the libraries that programs are linked with.
depends() {
    local folder
    folder=$(mktemp -d)
    mkdir "$folder/debian"
    printf 'Source: any\n\nPackage: any\nArchitecture: amd64\n' >"$folder/debian/control"
    # dpkg-shlibdeps warns of files that are in no package yet.
    (cd "$folder" && dpkg-shlibdeps -O "${@/#/-e}" 2>"$out/shlibdeps.log") | sed -n 's/^shlibs:Depends=//p'
    rm -rf "$folder"
}
# deb NAME VERSION: builds a package of $tree, whose file control lacks only the fields that follow from the tree.
deb() {
    local name=$1 version=$2 doc=$tree/usr/share/doc/$1 archive=$out/${1}_${2}_amd64.deb
    mkdir -p "$doc" "$tree/DEBIAN"
    cp "$copyright" "$doc/copyright"
    printf '%s (%s) unstable; urgency=medium\n\n  * Built from the sources of this version; see CHANGELOG.md there.\n\n -- %s  %s\n' \
        "$name" "$version" "$maintainer" "$(date -R -d "@$epoch")" | gzip -9n >"$doc/changelog.Debian.gz"
    chmod -R u=rwX,go=rX "$tree"
    find "$tree" -type d -exec chmod 755 {} +
    {
        echo "Package: $name"
        echo "Version: $version"
        echo "Architecture: amd64"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $(find "$tree" -path "$tree/DEBIAN" -prune -o \( -type f -o -type l \) -printf '%s\n' |
            awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')"
        cat "$tree/control"
    } >"$tree/DEBIAN/control"
    rm "$tree/control"
    (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
    of_one_time "$tree"
    dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$tree" "$archive" >/dev/null
}
