package hubsvc

import (
	"encoding/json"
	"net/http"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
)

func TestATokenForAClusterOutlivesARestartOfTheHub(t *testing.T) {
	o := newOrigin(t)
	o.push(twoServices(nil))
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	code, said := hub.do(http.MethodPost, "/v1/kube/token", hub.token, []byte(`{"cluster":"a"}`))
	var made v1.KubeToken
	if err := json.Unmarshal(said, &made); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, said)
	}
	hub.stop()
	hub = start(t, opts)
	hub.ready()
	// There is no agent: whoever is known is told so, and everybody else to log in.
	if code, said := hub.do(http.MethodGet, "/k8s/a/version", made.Token, nil); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, said)
	}
	if code, said := hub.do(http.MethodGet, "/k8s/a/version", made.Token+"x", nil); code != http.StatusUnauthorized {
		t.Errorf("a forged one: %d %s", code, said)
	}
}
