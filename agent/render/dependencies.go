package render

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// maxMounts is how many mounts a service may have.
const maxMounts = 8

// plainName and plainURL are what a shell and YAML take for one word, whoever wrote the chart.
var (
	plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	plainURL  = regexp.MustCompile(`^(https|oci)://[A-Za-z0-9][A-Za-z0-9._~:/%-]*$`)
)

// vendor says how a chart gets dependencies that it lacks: by a commit, or mounted from where Chart.yaml says that they are.
func vendor(dir string, missing []*chart.Dependency) string {
	const commit = "run helm dependency update and commit charts/"
	var sources, mounts []string
	known := map[string]string{}
	for _, d := range missing {
		if len(mounts) == maxMounts || !plainName.MatchString(d.Name) || !plainURL.MatchString(d.Repository) {
			return commit // it may be of a folder, or of a name that one machine alone knows
		}
		kind, url, field := "--helm", d.Repository, ", chart: "+d.Name
		if strings.HasPrefix(url, "oci://") {
			kind, url, field = "--oci", strings.TrimSuffix(url, "/")+"/"+d.Name, ""
		}
		if known[url] == "" {
			known[url] = d.Name
			sources = append(sources, "plural source add "+d.Name+" "+kind+" "+url)
		}
		at := path.Join(dir, "charts", d.Name)
		mounts = append(mounts, fmt.Sprintf("{source: {name: %s, ref: %q}%s, at: %q}", known[url], d.Version, field, at))
	}
	return commit + "; or mount them: " + strings.Join(sources, " && ") +
		", and in the Service's spec mounts: [" + strings.Join(mounts, ", ") + "]"
}
