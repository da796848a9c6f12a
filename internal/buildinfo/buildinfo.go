// Package buildinfo owns the version of this build.
package buildinfo

import (
	"runtime/debug"
)

// Project is where people find the program's documents, and where they tell of defects.
const Project = "https://github.com/pluralsh/plural"

// Version is set by the linker at release; otherwise it is told from the module's build information.
var version = ""

// releases is set by the linker where programs may look for newer ones: not in what distributions build.
var releases = "" //nolint:gochecknoglobals // the linker sets it

// Releases is where the newest release is told of, as GitHub does; empty: nobody is asked.
func Releases() string { return releases }

// Version is the program's version: a release's ("1.2.3"), or "dev" with the commit where the toolchain knows it.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}
