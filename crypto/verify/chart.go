package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"sigs.k8s.io/yaml"
)

const (
	beginClear = "-----BEGIN PGP SIGNED MESSAGE-----"
	maxClear   = 1 << 20
	chartBreak = "\n...\n"
)

// Clearsigned says who of the OpenPGP keys signed a text such as helm's .prov files, and gives what was signed.
// Anything around the signed part is ErrMalformed, since it looks signed and is not.
func (k *Keys) Clearsigned(text []byte) (plain []byte, by string, err error) {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return nil, "", ErrUnsigned
	case len(text) > maxClear:
		return nil, "", fmt.Errorf("%w: larger than %d bytes", ErrMalformed, maxClear)
	case !bytes.HasPrefix(text, []byte(beginClear)), !bytes.HasSuffix(text, []byte(endPGP)):
		return nil, "", fmt.Errorf("%w: want an OpenPGP signed message, with nothing around it", ErrMalformed)
	}
	block, rest := clearsign.Decode(text)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, "", fmt.Errorf("%w: want an OpenPGP signed message, with nothing around it", ErrMalformed)
	}
	signature, err := io.ReadAll(io.LimitReader(block.ArmoredSignature.Body, maxSignature))
	if err != nil {
		return nil, "", fmt.Errorf("%w: the OpenPGP armor is damaged", ErrMalformed)
	}
	by, err = k.verifyPGP(block.Bytes, signature)
	if err != nil {
		return nil, "", err
	}
	return block.Plaintext, by, nil
}

// sha256Text is how helm writes a digest.
var sha256Text = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Chart says which digest ("sha256:" and 64 hex digits) of the archive of a chart's version a provenance file vouches
// for, as `helm package --sign` writes it, and who signed it. One for another chart or version is ErrOther.
func (k *Keys) Chart(provenance []byte, name, version string) (digest, by string, err error) {
	plain, by, err := k.Clearsigned(provenance)
	if err != nil {
		return "", "", fmt.Errorf("provenance of chart %s %s: %w", name, version, err)
	}
	if digest, err = chartDigest(plain, name, version); err != nil {
		return "", "", fmt.Errorf("provenance of chart %s %s: %w", name, version, err)
	}
	return digest, by, nil
}

// chartDigest reads Chart.yaml, a line of three dots, and the digests of the files, of which there is one.
func chartDigest(plain []byte, name, version string) (string, error) {
	parts := bytes.Split(plain, []byte(chartBreak))
	if len(parts) != 2 {
		return "", fmt.Errorf("%w: want the chart's metadata, a line of three dots, and its files", ErrMalformed)
	}
	var chart struct{ Name, Version string }
	var sums struct{ Files map[string]string }
	if err := errors.Join(yaml.Unmarshal(parts[0], &chart), yaml.Unmarshal(parts[1], &sums)); err != nil {
		return "", fmt.Errorf("%w: its YAML cannot be read", ErrMalformed)
	}
	if chart.Name != name || chart.Version != version {
		return "", fmt.Errorf("%w: chart %.80q %.80q", ErrOther, chart.Name, chart.Version)
	}
	for _, digest := range sums.Files {
		if len(sums.Files) == 1 && sha256Text.MatchString(digest) {
			return digest, nil
		}
	}
	return "", fmt.Errorf("%w: want one file with its sha256 digest", ErrMalformed)
}
