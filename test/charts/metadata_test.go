package charts

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/templates"
)

// What Artifact Hub shows of a chart: https://artifacthub.io/docs/topics/annotations/helm/
func TestChartsSayWhatTheyAreOfAndWhichImageTheyRun(t *testing.T) {
	for name, image := range map[string]string{"hub": hubImage, "agent": agentImage} {
		text, err := fs.ReadFile(templates.Catalog(), name+"/chart/Chart.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var chart struct {
			AppVersion  string
			Annotations map[string]string
		}
		if err := yaml.Unmarshal(text, &chart); err != nil {
			t.Fatal(err)
		}
		if chart.Annotations["artifacthub.io/license"] != "Apache-2.0" {
			t.Errorf("%s is licensed as %q", name, chart.Annotations["artifacthub.io/license"])
		}
		var links []struct{ Name, URL string }
		if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/links"]), &links); err != nil || len(links) == 0 {
			t.Errorf("%s: links %v: %v", name, links, err)
		}
		var images []struct{ Name, Image string }
		err = yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/images"]), &images)
		if err != nil || len(images) != 1 || images[0].Image != image+":"+chart.AppVersion {
			t.Errorf("%s: images %v, and it runs %s:%s: %v", name, images, image, chart.AppVersion, err)
		}
	}
}

func TestAnImagesDigestGoesBeforeItsTag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for name, image := range map[string]string{"hub": hubImage, "agent": agentImage} {
		v := values{"image": values{"tag": "1.2.3", "digest": digest}, "repo": values{"url": "x"}}
		objects, err := chart(t, name, v)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"image":"`+image+"@"+digest+`"`) || strings.Contains(string(text), image+":1.2.3") {
			t.Errorf("%s does not run its digest", name)
		}
	}
}
