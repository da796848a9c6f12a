package workspace_test

import (
	"encoding/base64"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

// overHTTP serves the bare repository to who has a password.
func (u *upstream) overHTTP(password string) (url string) {
	u.Helper()
	u.git(u.bare, "config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Path: needs.Program(u, "git", "git"), Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(u.bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "REMOTE_USER=ann"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	u.Cleanup(server.Close)
	return server.URL + "/" + filepath.Base(u.bare)
}

func TestPushAsksGitsCredentialHelpersWhereTheRemoteAsksWhoItIs(t *testing.T) {
	const password = "the-password"
	u := newUpstream(t, map[string]string{"plural.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\n"})
	url := u.overHTTP(password)
	home := filepath.Dir(u.work)
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	u.git(u.work, "config", "--global", "user.name", "ann")
	u.git(u.work, "config", "--global", "user.email", "ann@example.com")
	u.git(u.work, "remote", "set-url", "origin", url)
	repo, err := workspace.Find(u.work)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, helper, kept, header, wrong string
	}{
		{name: "nobody knows a password", wrong: "git's credential helpers have no answer for 127.0.0.1"},
		{name: "the password is wrong", helper: "store", kept: "old-password", wrong: "authentication required"},
		{name: "a helper has the password", helper: "store", kept: password},
		{name: "the configuration has it", header: "AUTHORIZATION: basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+password))},
		{name: "the configuration has a wrong one", header: "AUTHORIZATION: basic " + base64.StdEncoding.EncodeToString([]byte("x:y")), wrong: "authentication required"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u.git(u.work, "config", "--global", "--replace-all", "credential.helper", tc.helper)
			u.git(u.work, "config", "--replace-all", "http."+url+".extraheader", tc.header)
			kept := filepath.Join(home, ".git-credentials")
			if err := os.WriteFile(kept, []byte(strings.Replace(strings.TrimSuffix(url, "/origin.git"), "http://", "http://ann:"+tc.kept+"@", 1)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := repo.Commit(t.Context(), "Change", map[string][]byte{"README.md": []byte(tc.name)}); err != nil {
				t.Fatal(err)
			}
			pushed, err := repo.Push(t.Context())
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) || strings.Contains(err.Error(), "old-password") {
					t.Errorf("got %v, want %q", err, tc.wrong)
				}
				if left, _ := os.ReadFile(kept); tc.helper != "" && len(left) != 0 {
					t.Errorf("the helper still has %q, which was refused", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tip := u.git(u.bare, "rev-parse", "main"); tip != pushed {
				t.Errorf("origin is at %s, pushed was %s", tip, pushed)
			}
		})
	}
}
