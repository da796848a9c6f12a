package existing

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/crypto/verify"
)

// hubAnswers is where the package hub keeps what it was answered.
const hubAnswers = "packages/hub/values.yaml"

// signed says why a hub that believes signed commits alone would not believe the newest one. One that has no data yet, as after
// its loss, would wait for another commit, and nobody would see what for.
func (u *bringUp) signed() error {
	text, err := u.read(hubAnswers)
	if err != nil {
		return err
	}
	var answers struct {
		RepoKeys []string `json:"repoKeys"`
	}
	if err := yaml.Unmarshal(text, &answers); err != nil {
		return fmt.Errorf("read %s: %w", hubAnswers, err)
	}
	if len(answers.RepoKeys) == 0 {
		return nil
	}
	files := make([][]byte, len(answers.RepoKeys))
	for i, key := range answers.RepoKeys {
		files[i] = []byte(key)
	}
	keys, err := verify.ParseKeys(files...)
	if err != nil {
		return fmt.Errorf("repoKeys of %s: %w", hubAnswers, err)
	}
	head, err := u.repo.Head()
	if err != nil {
		return err
	}
	commit, err := u.repo.Signed(head)
	if err != nil {
		return err
	}
	if _, err := keys.Git(commit); err != nil {
		return &UnsignedError{Commit: head, Err: err}
	}
	return nil
}
