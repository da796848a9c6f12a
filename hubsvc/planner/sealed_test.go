package planner

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

func TestCommitWithAFileThatIsNotSealedAsItMustBeIsRefusedAsAWhole(t *testing.T) {
	s := fleetrepo.NewSafe(t)
	old := s.Seal("secrets/new.yaml", "a: 1\n")
	rotated := s.Clone()
	rotated.Rotate()
	otherGroup := strings.Replace(fleetrepo.SealYAML, "secrets/**\", groups: [fleet]", "secrets/**\", groups: [fleet, ops]", 1)
	ops, err := s.Set().Create(fleetrepo.RepositoryID, "ops", []groups.Member{{Kind: groups.Person, Name: "alice"}}, groups.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	opsFiles := map[string]string{".plural/seal.yaml": otherGroup, "secrets/new.yaml": old}
	for name, text := range ops {
		opsFiles[name] = string(text)
	}
	reseal := func(files map[string]string) map[string]string { // the fleet's own files, for the rotated group
		files["secrets/db.yaml"] = rotated.Seal("secrets/db.yaml", "password: x\n")
		files["apps/web/db.secret.yaml"] = rotated.Seal("apps/web/db.secret.yaml", "a: x\n")
		return files
	}
	for name, test := range map[string]struct {
		files map[string]string
		file  string
		line  int
		want  string
	}{
		"plaintext":         {map[string]string{"secrets/new.yaml": "password: " + fleetrepo.Canary}, "secrets/new.yaml", 0, "must be sealed"},
		"of another place":  {map[string]string{"secrets/new.yaml": s.Seal("secrets/db.yaml", "a: 1\n")}, "secrets/new.yaml", 0, "moved, copied or swapped"},
		"of another repo":   {map[string]string{"secrets/new.yaml": s.SealFor(strings.Repeat("0", 32), "secrets/new.yaml", "a: 1\n")}, "secrets/new.yaml", 0, "another repository"},
		"of a retired key":  {reseal(merged(rotated.Files, map[string]string{"secrets/new.yaml": old})), "secrets/new.yaml", 0, "epoch 1"},
		"of other groups":   {opsFiles, "secrets/new.yaml", 0, "wants fleet, ops"},
		"cut off":           {map[string]string{"secrets/new.yaml": old[:100]}, "secrets/new.yaml", 0, "damaged"},
		"policy is none":    {map[string]string{".plural/seal.yaml": fleetrepo.SealYAML + "  color: blue\n"}, ".plural/seal.yaml", 9, "color"},
		"contradictions":    {merged(opsFiles, map[string]string{".plural/seal.yaml": fleetrepo.SealYAML + fleetrepo.Contradiction}), ".plural/seal.yaml", 9, "equally specific"},
		"group that is not": {map[string]string{".plural/seal.yaml": fleetrepo.SealYAML + "  - {pattern: \"more/**\", groups: [nobody]}\n"}, ".plural/seal.yaml", 9, "nobody"},
		"group in pieces":   {map[string]string{".plural/groups/fleet/recipient.txt": "# epoch 1\nnonsense\n"}, ".plural/groups/fleet/recipient.txt", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := fleetrepo.New(t)
			p := plans(t, o, t.TempDir())
			good := o.Push(s.Fleet(nil))
			p.serves(good)
			problems := p.refuses(o.Push(test.files))
			i := slices.IndexFunc(problems, func(p v1.Problem) bool { return p.File == test.file })
			if i < 0 || !strings.Contains(problems[i].Message, test.want) || problems[i].Fix == "" || test.line > 0 && problems[i].Line != test.line {
				t.Errorf("problems = %+v", problems)
			}
			for _, p := range problems {
				if strings.Contains(p.Message+p.Fix, fleetrepo.Canary) {
					t.Errorf("the problem repeats the secret: %+v", p)
				}
			}
			if p.Plan().Desired.Served.ID != good {
				t.Error("the last good commit is gone")
			}
		})
	}
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func TestRotationWithEverythingSealedAnewIsServed(t *testing.T) {
	s, o := fleetrepo.NewSafe(t), fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(s.Fleet(nil)))
	before, envelopes := p.on("web"), p.envelopesOf("a")
	s.Rotate()
	p.serves(o.Push(s.Fleet(nil)))
	if after := p.on("web"); after.SecretsBundle == before.SecretsBundle || after.Key == before.Key {
		t.Error("what was sealed anew has the old key")
	}
	if after := p.envelopesOf("a"); len(after) != 1 || after[0].GetEpoch() != 2 || bytes.Equal(after[0].GetSealed(), envelopes[0].GetSealed()) {
		t.Errorf("envelopes = %v", after)
	}
	p.packs()
}

// poll is what a cluster's agent is told.
func (p *planning) envelopesOf(cluster string) []*api.Envelope {
	p.t.Helper()
	list, err := p.envelopes.last.cluster(cluster)
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}
