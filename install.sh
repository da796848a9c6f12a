#!/bin/sh
# Installs plural and localkube from a release. Fetch this file, look at it, run it.
# All is in functions, which the last line calls as a command that has an end: a part of this file does nothing.
usage() {
	cat <<'END'
Usage: sh install.sh [flags]
  --version X   the release, such as 1.2.3; without it the newest, which replaces no newer one
  --to DIR      where plural and localkube go (default ~/.local/bin)
  --from URL    a mirror of https://github.com/pluralsh/plural/releases: https, http on this machine, or a folder
  --key FILE    the public key that the mirror signs with; without it the project's workflow has to have signed
  --unsigned    also install a release that has no signature
  --dry-run     say what would be done, and write nothing
The SHA-256 of the archive is always checked, its signature by cosign where that is in PATH, else by the plural that came.
END
}
say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $1"; say "  fix: $2"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# get prints a file. wget would follow https to http: there it finds a proxy that is none.
get() {
	case $scheme in folder) cat "$1"; return ;; https) nowhere=http://127.0.0.1:9 ;; *) nowhere=${http_proxy-} ;; esac
	if ! have curl; then http_proxy=$nowhere wget -q -O - -T 20 -t 3 --max-redirect="$hops" "$1"; return; fi
	curl -fsSL --proto "=$scheme" --max-redirs "$hops" --netrc-optional --connect-timeout 20 --speed-limit 100 --speed-time 30 "$1"
}
digest() { if have sha256sum; then sha256sum; elif have shasum; then shasum -a 256; else openssl dgst -sha256 -r; fi | cut -c 1-64; }
# listed prints \1, the sum, or \2, a part of the name, of those lines of checksums.txt whose name is as the pattern says.
listed() { sed -n "s/^\([0-9a-f]\{64\}\) [ *]$1\$/$2/p"; }
# older compares the numbers of two versions; a pre-release comes before its release.
older() {
	a=${1%%-*} b=${2%%-*}
	if [ "$a" = "$b" ]; then [ "$1" != "$a" ] && [ "$2" = "$b" ]; return; fi
	[ "$(printf '%s\n' "$a" "$b" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$a" ]
}

# unpack takes the programs out of the archive by pipes: no name, link or mode in it says what is written where.
unpack() {
	gzip -dc "$stage/$archive" >"$stage/tar" || return
	tar -tf - <"$stage/tar" >"$stage/names" 2>&1 && tar -tvf - <"$stage/tar" >"$stage/list" || return
	if grep -qE '^[^A-Za-z0-9]|[^A-Za-z0-9._/-]|(^|/)\.\.(/|$)' "$stage/names" || grep -qE '^[^d-]| -> | link to ' "$stage/list"; then
		fail "$archive has links, or names that lead elsewhere" "take another mirror, and tell whoever keeps this one"
	fi
	for program in localkube plural; do
		tar -xOf - "$program" <"$stage/tar" >"$stage/$program" && [ -s "$stage/$program" ] && chmod 755 "$stage/$program" || return
	done
	"$stage/plural" version >/dev/null </dev/null
}
by_cosign() {
	if [ -n "$key" ]; then set -- --key "$key" --insecure-ignore-tlog; else
		set -- --certificate-identity "https://github.com/pluralsh/plural/.github/workflows/release.yaml@refs/tags/v$version" \
			--certificate-oidc-issuer https://token.actions.githubusercontent.com
	fi
	cosign verify-blob --bundle "$sums.sigstore.json" "$@" "$sums" >&2 && say "verified by cosign"
}
by_itself() {
	"$stage/plural" version --verify --from "$stage" ${key:+--key "$key"} >&2 </dev/null &&
		say "verified by itself: that is as good as the place it came from. With cosign in PATH, that verifies it."
}

main() {
	set -eu; unset TAR_OPTIONS
	base=https://github.com/pluralsh/plural/releases version='' to=${HOME-}/.local/bin key='' unsigned='' dry='' verify=by_itself
	while [ $# -gt 0 ]; do
		case $1 in
		--help) usage; return ;;
		--unsigned) unsigned=yes ;;
		--dry-run) dry=yes ;;
		--version) version=${2:?"$1 wants a value"}; shift ;;
		--to) to=${2:?"$1 wants a value"}; shift ;;
		--from) base=${2:?"$1 wants a value"}; shift ;;
		--key) key=${2:?"$1 wants a value"}; shift ;;
		*) fail "unknown flag: $1" "sh install.sh --help" ;;
		esac
		shift
	done
	case $to in /*) ;; *) to=$PWD/$to ;; esac
	case $base/ in
	*://*@*) fail "--from has a password in it" "write it into ~/.netrc, which curl and wget read" ;;
	https://*) scheme=https hops=5 ;;
	http://localhost[:/]* | http://127.0.0.1[:/]* | 'http://[::1]'[:/]*) scheme=http hops=0 ;;
	/*) scheme=folder ;;
	*) fail "--from $base: others can change what comes from there" "name it by https, or a folder by its path from / on" ;;
	esac
	os=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $(uname -m) in x86_64 | amd64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
	[ -z "$key" ] || [ -r "$key" ] || fail "--key $key cannot be read" "name a file with the public key"
	[ $scheme = folder ] || have curl || wget --version 2>&1 | grep -q '^GNU Wget' || fail "nothing here can fetch" "install curl, or GNU wget"
	have sha256sum || have shasum || have openssl || fail "nothing here computes SHA-256" "install sha256sum, shasum or openssl"
	! have cosign || verify=by_cosign
	version=${version#v} base=${base%/} wanted=${version#v}
	[ -n "$wanted" ] || version=$(get "$base/latest/download/checksums.txt" | head -c 1000000 |
		listed "plural_\([0-9][0-9A-Za-z.-]*\)_${os}_$arch\.tar\.gz" '\2')
	case $version in [!0-9]* | *[!0-9A-Za-z.-]* | '') fail "no release for $os/$arch at $base" "see --version and --from" ;; esac
	installed=$("$to/plural" version 2>/dev/null </dev/null | sed -n 's/^plural v\{0,1\}\([0-9][^ ]*\) .*/\1/p')
	[ -n "$wanted" ] || [ -z "$installed" ] || ! older "$version" "$installed" ||
		fail "$version is said to be the newest, and is older than the installed $installed" "to go back: --version $version"
	archive=plural_${version}_${os}_$arch.tar.gz from=$base/download/v$version
	sum=$(get "$from/checksums.txt" | head -c 1000000 | listed "$archive" '\1')
	[ -n "$sum" ] || fail "$from/checksums.txt does not list $archive" "see --version and --from"
	say "plural $version, from $from/$archive, SHA-256 $sum, to $to"; [ -z "$dry" ] || return 0
	stage=$(mkdir -p "$to" && mktemp -d "$to/.plural-install.XXXXXX") || fail "cannot write to $to" "name a folder of yours: --to DIR"
	sums=$stage/checksums.txt; trap 'rm -rf "$stage"' EXIT
	trap 'exit 130' INT TERM HUP
	ulimit -f 4194304 || : # blocks: no file of more than 2 GiB, whatever comes
	get "$from/checksums.txt" >"$sums" || fail "cannot fetch $from/checksums.txt" "run again, or take another place: --from"
	if ! get "$from/checksums.txt.sigstore.json" >"$sums.sigstore.json"; then
		[ -n "$unsigned" ] || fail "$from has no signature" "take another place: --from, or trust this one: --unsigned"
		verify=nobody; say "verified by nobody: the release has no signature"
	fi
	[ "$verify" != by_cosign ] || by_cosign || fail "the signature of checksums.txt is not right" "do not use what is at $from"
	get "$from/$archive" >"$stage/$archive" || fail "cannot fetch $from/$archive" "run again, or take another place: --from"
	[ "$(digest <"$stage/$archive")" = "$(listed "$archive" '\1' <"$sums")" ] ||
		fail "$archive is not the file that checksums.txt lists" "run again; if it stays so, take another place: --from"
	unpack || fail "$archive has no plural and localkube that run here" "see above"
	[ "$verify" != by_itself ] || by_itself || fail "the signature of checksums.txt is not right" "do not use what is at $from"
	mv -f "$stage/localkube" "$stage/plural" "$to/" || fail "cannot replace the programs in $to" "name a folder of yours: --to DIR"
	say "installed plural and localkube; completions: plural completion --help"
	case $(command -v plural) in "$to/plural") ;; *) say "plural in PATH is another, or none: export PATH=\"$to:\$PATH\"" ;; esac
}
{ main "$@"; }
