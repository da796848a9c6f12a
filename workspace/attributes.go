package workspace

import (
	"errors"
	"io/fs"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/internal/block"
	"github.com/pluralsh/plural/templates"
)

// AttributesFile is where git is told what to do with which file.
const AttributesFile = ".gitattributes"

// IgnoreFile lists what git is never to add.
const IgnoreFile = ".gitignore"

// Ignore is old, the text of a .gitignore or nil, with the managed block as it should be: what editors, merges and age
// leave beside sealed files, in clear.
func Ignore(old []byte) ([]byte, error) {
	lines, err := templates.Block(IgnoreFile)
	if err != nil {
		return nil, err
	}
	return block.Put(old, lines)
}

// Attributes is old, the text of a .gitattributes or nil, with the managed block as it should be: what every installation
// repo says, and what the policy in files says, if there is one.
func Attributes(files fs.FS, old []byte) ([]byte, error) {
	lines, err := templates.Block(AttributesFile)
	if err != nil {
		return nil, err
	}
	p, err := policy.Load(files)
	switch {
	case errors.Is(err, policy.ErrNone):
	case err != nil:
		return nil, err
	default:
		lines = append(lines, p.Attributes()...)
	}
	return block.Put(old, lines)
}
