package channel

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the hub refuses although an API server would answer: two programs on the way might read it as two things.
func TestTargetsThatCanBeReadInTwoWaysAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{
		"//api/v1/pods", "/api//v1/pods", "/api/v1/./pods", "/api/v1/pods/../nodes", "/api/v1/%2e%2e/nodes", "/api/v1/namespaces/a%2Fb",
		"/api/v1/namespaces/a%5Cb", "/api/v1/pods;x=y", "/api/v1/namespaces/%00", "/api/v1/namespaces/a%252e", "/api/v1/pods?a=%zz", "/api/v1/pods?a;b",
		"/api/v1/nodes/simulated-1/proxy/a%2Fb",
	} {
		for _, client := range []*http.Client{w.through.client, w.through.one} {
			got := w.through.do(t, client, get(target))
			var status metav1.Status
			decode(t, got.Body, &status)
			if got.Status != http.StatusBadRequest || status.Code != http.StatusBadRequest || !strings.Contains(status.Message, "request target") {
				t.Errorf("%s: %d: %s", target, got.Status, got.Body)
			}
		}
	}
}

// Through the hub everybody is who they are.
func TestImpersonationByClientsIsWithoutEffect(t *testing.T) {
	w := newWorld(t)
	review := step(http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", jsonType,
		`{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}`)
	for _, forged := range [][]string{
		{"Impersonate-User", "system:admin", "Impersonate-Group", "system:masters"},
		{"impersonate-user", "plural:eve"},
		{"Impersonate-Extra-Plural.sh%2frequest-Id", "x"},
		{"Impersonate-Uid", "0"},
		{"X-Remote-User", "system:admin", "X-Remote-Group", "system:masters"},
		{"Connection", "Impersonate-User, Impersonate-Group, Authorization"},
	} {
		r := review
		r.header = headers(append([]string{"Content-Type", jsonType}, forged...)...)
		got := w.through.do(t, w.through.one, r)
		var seen struct {
			Status struct {
				UserInfo struct {
					Username, UID string
					Groups        []string
				}
			}
		}
		decode(t, got.Body, &seen)
		user := seen.Status.UserInfo
		if user.Username != operator || user.UID != "" || len(user.Groups) != 2 || user.Groups[0] != operators {
			t.Errorf("with %q the cluster sees %+v", forged, user)
		}
	}
}
