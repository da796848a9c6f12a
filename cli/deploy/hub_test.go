package deploy

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/installer/deploy"
)

// A deploy waited out its time for a service that had failed for good, and for one that was suspended.
func TestADeployWaitsNeitherForWhatHasFailedNorForWhatIsSuspended(t *testing.T) {
	for name, tt := range map[string]struct {
		row  v1.Deployment
		last string
	}{
		"failed":      {v1.Deployment{Phase: v1.Failed, Message: "no such image"}, "failed: no such image"},
		"held":        {v1.Deployment{Phase: v1.Held, Message: "no source charts"}, "held: no source charts"},
		"suspended":   {v1.Deployment{Phase: v1.Held, Suspended: true}, ""},
		"well at all": {v1.Deployment{Phase: v1.Healthy, AppliedKey: "k"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.row.Key = "k"
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/v1/deployments/") {
					_ = json.NewEncoder(w).Encode(tt.row)
					return
				}
				_ = json.NewEncoder(w).Encode(v1.Status{})
			}))
			defer server.Close()
			c, err := client.New(server.URL, "", "test")
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			h := &hub{c, func() time.Time { now = now.Add(failing); return now }}
			err = h.Healthy(t.Context(), deploy.Wanted{Service: "web", Cluster: "a", Key: "k"}, func(string) {})
			var ill *deploy.NotHealthyError
			if errors.As(err, &ill) != (tt.last != "") || ill != nil && ill.Last != tt.last || ill == nil && err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}
