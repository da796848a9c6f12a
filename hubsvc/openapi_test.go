package hubsvc

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api/v1/openapi"
)

var update = flag.Bool("update", false, "write the published description anew")

// published is where people find the description of /v1 without a hub.
const published = "../docs/api/openapi.json"

func TestPublishedDescriptionIsThatOfTheRoutes(t *testing.T) {
	document, err := openapi.Document("v1", apiRoutes()...)
	if err != nil {
		t.Fatal(err)
	}
	document = append(document, '\n')
	if *update {
		if err := os.WriteFile(published, document, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(document)); diff != "" {
		t.Errorf("docs/api/openapi.json is stale: go test ./hubsvc -run Published -update\n%s", diff)
	}
}
