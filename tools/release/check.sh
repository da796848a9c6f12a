#!/usr/bin/env bash
# Makes a release of this commit for linux in two places, with other paths, users' masks, time zones and languages, and has
# test/release check it. Prints release_check_s.
set -euo pipefail
cd "$(dirname "$0")/../.."
started=$SECONDS
root=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/release-check.XXXXXX")
trap 'git worktree prune; rm -rf "$work"' EXIT

export COSIGN_PASSWORD=checked RELEASE_KEY_PASSWORD=checked
"$root/.tools/cosign" generate-key-pair --output-key-prefix "$work/release" 2>/dev/null

# build FOLDER: a release of HEAD, from a clone there.
build() {
	git clone -q --no-hardlinks "$root" "$1"
	(
		cd "$1"
		git -c advice.detachedHead=false checkout -q "$(git -C "$root" rev-parse HEAD)"
		mkdir -p .tools
		ln -s "$root/.tools/goreleaser" .tools/goreleaser
		mkdir -p web
		[[ ! -d $root/web/node_modules ]] || cp -r "$root/web/node_modules" web/
		# Other systems are built in public CI; everything else is as it is.
		sed -E 's/(goos: &goos) .*/\1 [linux]/' .goreleaser.yaml >"$work/goreleaser.yaml"
		.tools/goreleaser release --config "$work/goreleaser.yaml" --clean --snapshot --skip=publish >"$1.log" 2>&1 ||
			{ tail -50 "$1.log" >&2; exit 1; }
		go run ./tools/release finish --snapshot --key "$work/release.key"
	)
}

build "$work/one"
printf 'release_build_s %d\n' $((SECONDS - started))
(umask 077 && TZ=Pacific/Chatham LC_ALL=C.UTF-8 LANG=C.UTF-8 HOME="$HOME" build "$work/a longer place")
export PLURAL_RELEASE="$work/one/dist" PLURAL_RELEASE_AGAIN="$work/a longer place/dist" PLURAL_RELEASE_KEY="$work/release.key"
go test -vet=off -tags release -count 1 -timeout 10m -v ./test/release | grep -v '^=== '
go test -vet=off -tags release -count 1 -timeout 5m -v -run 'Cosign|AReleaseIsInstalled' ./test/install | grep -v '^=== '
printf 'bench release_check_s %d s\n' $((SECONDS - started))
