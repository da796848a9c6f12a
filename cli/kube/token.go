package kube

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/pluralsh/plural/cli/cmdutil"
)

// newCmdToken is what Kubernetes tools run when they need a token.
func newCmdToken(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "token CLUSTER",
		Hidden:  true,
		Short:   "Print a token for a cluster, as Kubernetes tools ask for it",
		Long:    "Print a token for a cluster, as an ExecCredential. The contexts that plural kube config writes run this.",
		Example: cmdutil.Example("plural kube token prod-eu --hub https://hub.example.com"),
		Args:    cmdutil.Exactly("CLUSTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := find(f, args[0])
			if err != nil {
				return err
			}
			token, err := w.tokens.TokenFor(cmd.Context(), os.Getppid())
			if err != nil {
				return unknown(err, args[0])
			}
			expires := metav1.NewTime(token.Expires)
			return json.NewEncoder(f.IO.Out).Encode(&clientauthentication.ExecCredential{
				TypeMeta: metav1.TypeMeta{Kind: "ExecCredential", APIVersion: clientauthentication.SchemeGroupVersion.String()},
				Status:   &clientauthentication.ExecCredentialStatus{ExpirationTimestamp: &expires, Token: token.Token},
			})
		},
	}
}
