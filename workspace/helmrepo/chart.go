package helmrepo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/mirror"
)

// shortDigest is how many hex digits people are shown.
const shortDigest = 12

// fetch is one Fetch.
type fetch struct {
	*upstream
	into mirror.Receiver
	// made are the commits of this fetch, by chart, version and digest.
	made map[string]string
}

// found is a version that a ref names now.
type found struct {
	chart, version string
	// digest is "sha256:" and 64 hex digits, or empty when the index has none.
	digest string
	// at is the archive's URL.
	at *url.URL
}

// tip brings one ref up to date.
func (f *fetch) tip(ctx context.Context, c chartRef, last mirror.Tip) (mirror.Tip, error) {
	now, err := f.find(c, last)
	if err != nil {
		return mirror.Tip{}, err
	}
	if same, err := f.unchanged(ctx, now, last); err != nil || same {
		return last, err
	}
	digest, commit, err := f.take(ctx, now)
	if err != nil {
		return mirror.Tip{}, err
	}
	before, _, _ := strings.Cut(last.Revision, "@")
	tip := mirror.Tip{ID: digest, Commit: commit, Revision: now.version + "@" + short(digest)}
	if last.ID != "" && last.ID != digest && before == now.version {
		tip.Rewound = fmt.Sprintf("version %s was %s and was published again with other content", before, short(last.ID))
	} else if last.ID == digest {
		tip.Rewound = last.Rewound
	}
	return tip, nil
}

func short(digest string) string { return digest[:min(len("sha256:")+shortDigest, len(digest))] }

// find picks the version. One that was served and is gone is missed, not replaced by an older one.
func (f *fetch) find(c chartRef, last mirror.Tip) (found, error) {
	list := f.index.charts[c.chart]
	if list == nil {
		return found{}, fmt.Errorf("chart %q is not in the repository's index", c.chart)
	}
	texts := make([]string, len(list.releases))
	for i, r := range list.releases {
		texts[i] = r.Version
	}
	inUse, _, _ := strings.Cut(last.Revision, "@")
	version, err := c.want.Newest(texts, inUse)
	if err != nil {
		return found{}, noteSkipped(fmt.Errorf("chart %q: %w", c.chart, err), list)
	}
	return f.located(c.chart, list.releases[slices.Index(texts, version)])
}

func noteSkipped(err error, list *listing) error {
	if list.skipped != nil {
		return fmt.Errorf("%w (an entry was passed over: %w)", err, list.skipped)
	}
	return err
}

// located reads what the index says of an archive.
func (f *fetch) located(chart string, r release) (found, error) {
	now := found{chart: chart, version: r.Version}
	if digits := strings.TrimPrefix(strings.ToLower(r.Digest), "sha256:"); digits != "" {
		if sum, err := hex.DecodeString(digits); err != nil || len(sum) != sha256.Size {
			return found{}, fmt.Errorf("version %s: the index says digest %.80q: want a SHA-256", r.Version, r.Digest)
		}
		now.digest = "sha256:" + digits
	} else if f.options.Check == nil {
		return found{}, fmt.Errorf("version %s: the index gives no digest, so nothing tells whether its archive is whole: "+
			"publish the index with digests, or verify the charts' provenance", r.Version)
	}
	if len(r.URLs) == 0 {
		return found{}, fmt.Errorf("version %s: the index gives no URL for its archive", r.Version)
	}
	at, err := f.base.Parse(r.URLs[0])
	if err != nil {
		return found{}, fmt.Errorf("version %s: URL %.200q in the index is none", r.Version, r.URLs[0])
	}
	at.User, at.Fragment = nil, "" // no one's credentials but those for this repository are sent
	switch {
	case at.Scheme == "oci":
		return found{}, fmt.Errorf("version %s: its archive is in a registry, at %.200q: make that a source, of kind OCI", r.Version, at)
	case at.Scheme != "https" && f.base.Scheme == "https":
		return found{}, fmt.Errorf("version %s: its archive is at %.200q, which is not https", r.Version, at)
	}
	if now.at, err = httpclient.ParseURL(at.String(), "https", "http"); err != nil {
		return found{}, fmt.Errorf("version %s: %w", r.Version, err)
	}
	return now, nil
}

// unchanged says whether the last tip is still what the ref names, and good.
func (f *fetch) unchanged(ctx context.Context, now found, last mirror.Tip) (bool, error) {
	before, _, _ := strings.Cut(last.Revision, "@")
	if last.Commit == "" || before != now.version || now.digest != "" && now.digest != last.ID ||
		!f.into.Complete(last.Commit) {
		return false, nil
	}
	known := now.digest != ""
	now.digest = last.ID
	if known && f.options.Check == nil || known && f.checked[now.key()] {
		return true, nil
	}
	// Without a digest in the index, that the signature still fits what was taken in says that it is the same.
	provenance, err := f.provenance(ctx, now)
	if err != nil {
		return false, err
	}
	err = f.verify(ctx, now, provenance)
	if err != nil && !known {
		return false, nil
	}
	return err == nil, err
}

func (n found) key() string { return n.chart + " " + n.version + " " + n.digest }

// take brings the archive, judges it, and makes a commit of it.
func (f *fetch) take(ctx context.Context, now found) (digest, commit string, err error) {
	if commit, ok := f.made[now.key()]; ok {
		return now.digest, commit, nil
	}
	packed, err := f.get(ctx, now.at, archive.DefaultLimits().Packed)
	if err != nil {
		return "", "", fmt.Errorf("version %s: %w", now.version, err)
	}
	sum := sha256.Sum256(packed)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	if now.digest != "" && now.digest != digest {
		return "", "", fmt.Errorf("version %s: the archive's digest is %s, the index says %s: "+
			"it was damaged or exchanged on the way", now.version, short(digest), short(now.digest))
	}
	now.digest = digest
	if f.options.Check != nil && !f.checked[now.key()] {
		provenance, err := f.provenance(ctx, now)
		if err != nil {
			return "", "", err
		}
		if err := f.verify(ctx, now, provenance); err != nil {
			return "", "", err
		}
	}
	files, err := archive.UnpackChart(bytes.NewReader(packed))
	if err != nil {
		return "", "", fmt.Errorf("version %s: %w", now.version, err)
	}
	commit, err = f.into.Tree(ctx, files, mirror.About{
		Author:  now.chart,
		Message: fmt.Sprintf("%s %s\n\n%s\n", now.chart, now.version, digest),
		Time:    time.Unix(0, 0).UTC(),
	})
	if err != nil {
		return "", "", fmt.Errorf("version %s: %w", now.version, err)
	}
	f.made[now.key()] = commit
	return digest, commit, nil
}

// verify asks the Check.
func (f *fetch) verify(ctx context.Context, now found, provenance []byte) error {
	err := f.options.Check(ctx, Chart{Name: now.chart, Version: now.version, Digest: now.digest, Provenance: provenance})
	if err != nil {
		return fmt.Errorf("version %s is not taken: %w", now.version, err)
	}
	f.checked[now.key()] = true
	return nil
}

// provenance is what stands beside the archive; nil when nothing does.
func (f *fetch) provenance(ctx context.Context, now found) ([]byte, error) {
	at := *now.at
	at.Path, at.RawPath = at.Path+".prov", ""
	text, err := f.get(ctx, &at, maxProvenance)
	var status *httpclient.StatusError
	if errors.As(err, &status) && status.Code == 404 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("version %s: provenance: %w", now.version, err)
	}
	return text, nil
}
