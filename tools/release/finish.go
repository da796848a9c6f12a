package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/tools/release/attest"
	"github.com/pluralsh/plural/tools/release/dist"
)

const repository = "https://github.com/pluralsh/plural"

// place are the flags that say which release it is.
type place struct {
	dir, version, registry string
}

func (p *place) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.dir, "dist", "dist", "the `DIR` that goreleaser built into")
	cmd.Flags().StringVar(&p.version, "version", "", "the release's version (default what goreleaser built)")
	cmd.Flags().StringVar(&p.registry, "registry", "ghcr.io/pluralsh", "where images and charts go, `HOST/PATH`")
}

// release is the release at that place.
func (p *place) release() (*dist.Release, error) {
	if p.version == "" {
		var built struct{ Version string }
		file := filepath.Join(p.dir, "metadata.json")
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%w: build with goreleaser first", err)
		}
		if err := json.Unmarshal(text, &built); err != nil || built.Version == "" {
			return nil, fmt.Errorf("%s names no version", file)
		}
		p.version = built.Version
	}
	return &dist.Release{Dir: p.dir, Source: ".", Version: p.version, Registry: p.registry}, nil
}

func newCmdFinish() *cobra.Command {
	var (
		p                           place
		keyFile, fulcio, rekor, tsa string
		keyless, snapshot           bool
	)
	cmd := &cobra.Command{
		Use:   "finish {--key FILE | --keyless | --snapshot}",
		Short: "Make images, charts, bills of materials, checksums, provenance and signatures of what was built",
		Long: "With --key the signatures are by that key, ECDSA on P-256 in PEM; RELEASE_KEY_PASSWORD opens it. With --keyless they are by " +
			"the workflow of GitHub that this runs in. With --snapshot alone nothing is signed, and the clone need not be clean or tagged.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			r, err := p.release()
			if err != nil {
				return err
			}
			if err := clone(ctx, r, snapshot); err != nil {
				return err
			}
			switch {
			case keyless:
				token, err := githubToken(ctx)
				if err != nil {
					return err
				}
				r.Signer = attest.KeylessSigner(attest.Keyless{Token: token, Fulcio: fulcio, Rekor: rekor, Timestamps: tsa})
			case keyFile != "":
				key, err := os.ReadFile(keyFile)
				if err != nil {
					return err
				}
				if r.Signer, err = attest.KeySigner(key, []byte(os.Getenv("RELEASE_KEY_PASSWORD"))); err != nil {
					return fmt.Errorf("--key %s: %w", keyFile, err)
				}
			case !snapshot:
				return errors.New("say who signs: --key FILE or --keyless")
			}
			pages, err := filepath.Glob("hubsvc/web/dist/*.js.gz")
			if err != nil || len(pages) == 0 {
				return errors.Join(err, errors.New("hubsvc/web/dist has no page: run make web"))
			}
			page, err := os.ReadFile(pages[0])
			if err != nil {
				return err
			}
			return r.Finish(ctx, page)
		},
	}
	p.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&keyFile, "key", "", "the `FILE` with the private key")
	flags.BoolVar(&keyless, "keyless", false, "sign as the workflow of GitHub that this is")
	flags.BoolVar(&snapshot, "snapshot", false, "take a clone as it is")
	flags.StringVar(&fulcio, "fulcio", "https://fulcio.sigstore.dev", "with --keyless: the `URL` of who gives certificates")
	flags.StringVar(&rekor, "rekor", "https://rekor.sigstore.dev", "with --keyless: the `URL` of the log, or nothing")
	flags.StringVar(&tsa, "tsa", "", "with --keyless: the `URL` of an authority for timestamps")
	cmd.MarkFlagsMutuallyExclusive("key", "keyless")
	return cmd
}

func newCmdPush() *cobra.Command {
	var p place
	var plainHTTP bool
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Bring images and charts to the registry; what is there is not sent again, and tags never move",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := p.release()
			if err != nil {
				return err
			}
			return r.Push(cmd.Context(), plainHTTP, func(name string, d ocispec.Descriptor) { fmt.Printf("%s@%s\n", name, d.Digest) })
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "without TLS, for a registry of this machine")
	return cmd
}

// clone reads what is released, and refuses what nobody could build again: only a snapshot may be of what is not committed or tagged.
func clone(ctx context.Context, r *dist.Release, snapshot bool) error {
	git := func(args ...string) (string, error) {
		out, err := gitexec.Command(ctx, r.Source, args...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	ask := func(into *string, args ...string) (err error) {
		*into, err = git(args...)
		return err
	}
	var changed, shallow, tags, created string
	err := errors.Join(
		ask(&changed, "status", "--porcelain", "--untracked-files=no"), ask(&shallow, "rev-parse", "--is-shallow-repository"),
		ask(&tags, "tag", "--points-at", "HEAD"), ask(&r.Build.Commit, "rev-parse", "HEAD"), ask(&created, "log", "-1", "--format=%cI"),
	)
	if err != nil {
		return err
	}
	if r.Created, err = time.Parse(time.RFC3339, created); err != nil {
		return err
	}
	tag := "v" + r.Version
	r.Build.Repository, r.Build.Ref, r.Build.Builder = repository, "refs/tags/"+tag, repository+"/blob/main/docs/releases.md#elsewhere"
	if ref := os.Getenv("GITHUB_WORKFLOW_REF"); ref != "" {
		r.Build.Builder = "https://github.com/" + ref
		r.Build.Invocation = fmt.Sprintf("%s/actions/runs/%s/attempts/%s",
			repository, os.Getenv("GITHUB_RUN_ID"), os.Getenv("GITHUB_RUN_ATTEMPT"))
	}
	switch {
	case snapshot:
		r.Build.Ref = "HEAD"
	case changed != "":
		return fmt.Errorf("the clone has changes that are in no commit: commit them, or pass --snapshot\n%s", changed)
	case shallow == "true":
		return errors.New("the clone is shallow, so that the history of the release is not there: git fetch --unshallow")
	case !strings.Contains("\n"+tags+"\n", "\n"+tag+"\n"):
		return fmt.Errorf("HEAD has no tag %s: git tag %s, or pass --snapshot", tag, tag)
	}
	return nil
}

// githubToken is the identity of the workflow of GitHub that this is.
func githubToken(ctx context.Context) (string, error) {
	from, bearer := os.Getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), os.Getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	if from == "" || bearer == "" {
		return "", errors.New("--keyless: no identity of a workflow here: it needs GitHub Actions, and permissions: {id-token: write}")
	}
	u, err := url.Parse(from)
	if err != nil {
		return "", errors.New("ACTIONS_ID_TOKEN_REQUEST_URL is no URL")
	}
	query := u.Query()
	query.Set("audience", "sigstore")
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil) //nolint:gosec // the runner names the address
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	response, err := http.DefaultClient.Do(request) //nolint:gosec // as above
	if err != nil {
		return "", fmt.Errorf("ask for the workflow's identity: %w", err)
	}
	defer response.Body.Close()
	var answer struct{ Value string }
	err = json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer)
	if response.StatusCode != http.StatusOK || err != nil || answer.Value == "" { // not its text, which may hold the token
		return "", fmt.Errorf("ask for the workflow's identity: the answer is %s", response.Status)
	}
	return answer.Value, nil
}
