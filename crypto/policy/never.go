package policy

import (
	"slices"
	"strings"
)

// never are the patterns of what is read before there is any key: by git, by the hub, by everybody who looks for whom a
// file is sealed.
func never() []string {
	return []string{
		".plural/**", "plural.yaml", "plural.lock", "clusters/*.yaml",
		"**/.gitattributes", "**/.gitignore", "**/.gitmodules",
	}
}

// neverSealed says the same of one path as the patterns of never.
func neverSealed(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	cluster, inClusters := strings.CutPrefix(path, "clusters/")
	return strings.HasPrefix(path, ".plural/") ||
		path == "plural.yaml" || path == "plural.lock" ||
		slices.Contains([]string{".gitattributes", ".gitignore", ".gitmodules"}, base) ||
		inClusters && !strings.Contains(cluster, "/") && strings.HasSuffix(cluster, ".yaml")
}
