package render

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	status "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/release/v1/util"
)

// recordType is the type of the Secrets in which helm keeps releases, and recordPrefix what their names begin with.
const (
	recordType   = "helm.sh/release.v1"
	recordPrefix = "sh.helm.release.v1."
)

// maxRecord is what an API server takes in one Secret, in bytes.
const maxRecord = 1<<20 - 16<<10

// recordRelease is the Secret by which helm list knows the release: always revision 1, deployed, at no time, so that the same
// input gives the same record.
func recordRelease(j *job, c *chart.Chart, printed map[string]string) (json.RawMessage, error) {
	r, err := releaseOf(j, c, printed)
	if err != nil {
		return nil, err
	}
	packed, err := pack(r)
	if err != nil {
		return nil, err
	}
	if len(packed) > maxRecord {
		j.warn("%s: the release is too large for a Secret: helm list will not show it", path.Join(j.Path, "Chart.yaml"))
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata": map[string]any{
			"name":      fmt.Sprintf("%s%s.v%d", recordPrefix, r.Name, r.Version),
			"namespace": r.Namespace,
			"labels": map[string]any{
				"name": r.Name, "owner": "helm", "status": r.Info.Status.String(), "version": fmt.Sprint(r.Version),
			},
		},
		"type": recordType,
		"data": map[string]any{"release": []byte(packed)},
	})
}

// releaseOf is the release as helm install would have recorded it.
func releaseOf(j *job, c *chart.Chart, printed map[string]string) (*release.Release, error) {
	given, err := givenValues(j)
	if err != nil {
		return nil, err
	}
	files, said := maps.Clone(printed), ""
	for name := range printed {
		if path.Base(name) == notes {
			if name == path.Join(c.Name(), "templates", notes) {
				said = files[name]
			}
			delete(files, name)
		}
	}
	hooks, plain, err := util.SortManifests(files, nil, util.InstallOrder)
	if err != nil {
		return nil, place{file: path.Join(j.Path, "Chart.yaml")}.invalid("record release: %v", err)
	}
	var manifest bytes.Buffer
	for _, m := range plain {
		fmt.Fprintf(&manifest, "---\n# Source: %s\n%s\n", m.Name, m.Content)
	}
	return &release.Release{
		Name:      cmp.Or(j.Helm.Release, j.Service),
		Namespace: j.Namespace,
		Version:   1,
		Info:      &release.Info{Status: status.StatusDeployed, Description: "Applied by plural", Notes: said},
		Chart:     c,
		Config:    given,
		Manifest:  manifest.String(),
		Hooks:     hooks,
	}, nil
}

// pack encodes a release as helm's own storage does.
func pack(r *release.Release) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode release: %w", err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return "", fmt.Errorf("pack release: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
