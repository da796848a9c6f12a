package cli

import (
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/ui"
)

// TestACommandOfAnotherToolIsAnsweredWithOurs starts from what people type who know another tool.
func TestACommandOfAnotherToolIsAnsweredWithOurs(t *testing.T) {
	for theirs, ours := range map[string]string{
		"get pods":                       "plural service tree NAME; on a cluster: plural kubectl CLUSTER get pods",
		"get pods -A":                    "plural service tree NAME; on a cluster: plural kubectl CLUSTER get pods",
		"get svc":                        "plural service list",
		"get services":                   "plural service list",
		"get nodes -o wide":              "plural kubectl CLUSTER get nodes",
		"get cm -n x":                    "plural kubectl CLUSTER get cm",
		"describe svc web":               "plural service get web",
		"describe svc/web -n web":        "plural service get web",
		"describe pod web":               "plural kubectl CLUSTER describe pod web",
		"apply -f web.yaml":              "git commit and git push, and the clusters follow; plural diff shows what that changes",
		"create -f web.yaml":             "plural service create NAME [PARAMETER=VALUE]...",
		"delete svc web":                 "plural service delete web",
		"edit web":                       "plural service edit web",
		"scale web":                      "plural service set web replicas=N",
		"scale web --replicas 4":         "plural service set web replicas=N",
		"set image deploy/web web=x:1":   "plural service set SERVICE PARAMETER=VALUE",
		"describe web":                   "plural service get web; on a cluster: plural kubectl CLUSTER describe web",
		"port-forward svc/web 8080:80":   "plural kubectl CLUSTER port-forward svc/web 8080:80",
		"k9s":                            "plural tui; on a cluster: plural kube run CLUSTER -- k9s",
		"dashboard":                      "plural tui; in a browser: plural hub open",
		"ui":                             "plural tui; in a browser: plural hub open",
		"health":                         "plural status",
		"ps":                             "plural service list; the processes of this machine's fleets: plural local list",
		"pr":                             "plural service set SERVICE PARAMETER=VALUE --pr; each command that commits takes --pr",
		"api":                            "curl HUB/v1/openapi.json, which describes the hub's API; plural hub status names the hub",
		"hub logs":                       "plural logs hub",
		"agent list":                     "plural cluster list",
		"agent status edge-1":            "plural cluster list; its log: plural logs agent/CLUSTER",
		"agent logs edge-1":              "plural logs agent/edge-1",
		"auth whoami":                    "plural auth status",
		"auth can-i get pods":            "plural auth status; on a cluster: plural kubectl CLUSTER auth can-i VERB KIND",
		"auth token revoke ada":          "plural auth token delete USER NAME",
		"auth token ada":                 "plural auth token --help",
		"secret edit apps/web/x.yaml":    "plural crypto edit FILE",
		"secret rotate":                  "plural secret set FILE KEY; new keys for sealed files: plural crypto rotate",
		"package validate .":             "plural package lint",
		"package info agent":             "plural package show agent",
		"rollout status deploy/web":      "plural wait service/web",
		"rollout restart deploy/web":     "plural service restart web",
		"exec web":                       "plural kubectl CLUSTER exec web",
		"app list":                       "plural service list",
		"app sync web":                   "plural service sync web",
		"app logs web -f":                "plural logs svc/web",
		"app manifests web":              "plural service render web",
		"app wait web --health":          "plural wait service/web",
		"repo add":                       "plural source add NAME",
		"cluster add edge-9":             "plural cluster register edge-9",
		"cluster rm edge-1":              "plural cluster delete edge-1",
		"login":                          "plural auth login",
		"sync web":                       "plural service sync web",
		"reconcile ks web --with-source": "plural service sync web",
		"reconcile source git podinfo":   "plural source sync podinfo",
		"get kustomizations":             "plural service list",
		"suspend hr web":                 "plural service suspend web",
		"bootstrap github":               "plural up",
		"ls":                             "plural service list",
		"rollback":                       "plural service rollback NAME [COMMIT]",
		"rollback web":                   "plural service rollback web",
		"history web":                    "plural service history web",
		"install nginx":                  "plural package add nginx",
		"package install nginx":          "plural package add nginx",
		"template web":                   "plural render web",
		"service add":                    "plural service create NAME [PARAMETER=VALUE]...",
		"service add --help":             "plural service create NAME [PARAMETER=VALUE]...",
		"help service add":               "plural service create NAME [PARAMETER=VALUE]...",
		"service describe web":           "plural service get web",
		"service logs web":               "plural logs svc/web",
		"app":                            "plural service --help",
		"help app":                       "plural service --help",
		"help nosuch":                    "plural --help lists commands and topics",
	} {
		got := plural(t, t.Context(), troubled(), false, strings.Fields(theirs)...)
		lines := strings.Split(strings.TrimSpace(got.errOut), "\n")
		if got.code != ui.ExitDiffers || got.out != "" || len(lines) < 2 || lines[1] != "  fix:   "+ours {
			t.Errorf("plural %s: %d, %q, want the fix %q in\n%s", theirs, got.code, got.out, ours, got.errOut)
		}
		if help := strings.Contains(theirs, "nosuch"); len(lines) != 2 && !help {
			t.Errorf("plural %s is answered with more than an error and a fix:\n%s", theirs, got.errOut)
		}
	}
}

// TestWhatOtherToolsCommandsAreHereCanBeRun finds each command that the table names.
func TestWhatOtherToolsCommandsAreHereCanBeRun(t *testing.T) {
	for _, s := range sentences() {
		ours, _, _ := strings.Cut(s.ours, ";")
		if !strings.HasPrefix(ours, "plural ") {
			continue
		}
		if err := parses(ours); err != nil {
			t.Errorf("%s: %q: %v", s.theirs, ours, err)
		}
	}
}

func TestAListIsAlsoCalledLs(t *testing.T) {
	list, short := plural(t, t.Context(), troubled(), false, "service", "list"), plural(t, t.Context(), troubled(), false, "service", "ls")
	if list != short || list.code != ui.ExitOK {
		t.Errorf("%+v, %+v", list, short)
	}
}

func TestANameThatIsASlipIsMended(t *testing.T) {
	for args, fix := range map[string]string{
		"service get webb":    "did you mean web? plural service list has all",
		"cluster get edge1":   "did you mean edge-1? plural cluster list has all",
		"service get nothing": "",
		"--version":           "plural version",
	} {
		got := plural(t, t.Context(), troubled(), false, strings.Fields(args)...)
		if got.code != ui.ExitFailed || !strings.Contains(got.errOut, fix) || fix == "" && strings.Contains(got.errOut, "did you mean") {
			t.Errorf("%s: %d, %s", args, got.code, got.errOut)
		}
	}
}
