package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// chartValues is everything templates see at the top.
func chartValues(j *job, c *chart.Chart) (common.Values, error) {
	given, err := givenValues(j)
	if err != nil {
		return nil, err
	}
	return renderValues(j, c, given)
}

// renderValues is what templates see of the values that were given.
func renderValues(j *job, c *chart.Chart, given map[string]any) (common.Values, error) {
	capabilities, err := j.capabilities()
	if err != nil {
		return nil, err
	}
	at := place{file: path.Join(j.Path, "Chart.yaml")}
	j.working(at.file)
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, capabilities.KubeVersion.String()) {
		return nil, at.invalid("the chart wants Kubernetes %s and the cluster has %s", want, &capabilities.KubeVersion)
	}
	if err := chartutil.ProcessDependencies(c, given); err != nil {
		return nil, at.invalid("process dependencies: %v", err)
	}
	release := common.ReleaseOptions{Name: j.Helm.Release, Namespace: j.Namespace, Revision: 1, IsInstall: true}
	if release.Name == "" {
		release.Name = j.Service
	}
	values, err := util.ToRenderValues(c, given, release, capabilities)
	if err != nil {
		return nil, at.invalid("%v", err)
	}
	return values, nil
}

func (j *job) capabilities() (*common.Capabilities, error) {
	capabilities := common.DefaultCapabilities.Copy()
	if j.KubeVersion != "" {
		version, err := common.ParseKubeVersion(j.KubeVersion)
		if err != nil {
			return nil, &Error{Reason: Invalid, Message: fmt.Sprintf("invalid Kubernetes version %q", j.KubeVersion)}
		}
		capabilities.KubeVersion = *version
	}
	if len(j.APIVersions) > 0 {
		capabilities.APIVersions = j.APIVersions
	}
	return capabilities, nil
}

// givenValues merges the values files in order, and the service's own values over them.
func givenValues(j *job) (map[string]any, error) {
	merged := map[string]any{}
	for _, name := range j.Helm.ValuesFiles {
		docs, err := valuesFile(j, name)
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			values := map[string]any{}
			if err := json.Unmarshal(doc.json, &values); err != nil {
				return nil, doc.invalid("values are not a mapping: %v", err)
			}
			merged = loader.MergeMaps(merged, values)
		}
	}
	if len(j.Helm.ValuesJSON) == 0 {
		return merged, nil
	}
	values := map[string]any{}
	if err := json.Unmarshal(j.Helm.ValuesJSON, &values); err != nil {
		return nil, &Error{Reason: Invalid, Message: fmt.Sprintf("helm.values: %v", err)}
	}
	return loader.MergeMaps(merged, values), nil
}

func valuesFile(j *job, name string) ([]decoded, error) {
	if !fs.ValidPath(name) || strings.Contains(name, "://") {
		return nil, &Error{
			Reason: Refused, Message: fmt.Sprintf("values file %q is outside the repository", name),
			Fix: "name a file relative to the repository's root",
		}
	}
	data, err := j.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, place{file: name}.invalid("values file does not exist")
	}
	if err != nil {
		return nil, err
	}
	return j.decode(name, data)
}
