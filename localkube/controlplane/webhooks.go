package controlplane

import (
	"net/url"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/informers"

	"github.com/pluralsh/plural/localkube/egress"
)

// failOpen has the API server take its webhooks for such that need not answer, where a Service of the cluster is to serve
// them: its pods are simulated, so that one whose failure policy is Fail would refuse everything for ever. A process that
// does answer decides as anywhere else. What is stored stays as it was written.
func failOpen(shared informers.SharedInformerFactory) error {
	webhooks := shared.Admissionregistration().V1()
	if err := webhooks.MutatingWebhookConfigurations().Informer().SetTransform(unanswered); err != nil {
		return err
	}
	return webhooks.ValidatingWebhookConfigurations().Informer().SetTransform(unanswered)
}

// unanswered changes a webhook configuration as the API server reads it.
func unanswered(obj any) (any, error) {
	ignore := admissionv1.Ignore
	switch c := obj.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		c.ManagedFields = nil
		for i := range c.Webhooks {
			if inCluster(c.Webhooks[i].ClientConfig) {
				c.Webhooks[i].FailurePolicy = &ignore
			}
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		c.ManagedFields = nil
		for i := range c.Webhooks {
			if inCluster(c.Webhooks[i].ClientConfig) {
				c.Webhooks[i].FailurePolicy = &ignore
			}
		}
	}
	return obj, nil
}

// inCluster says whether a Service of the cluster is to serve a webhook.
func inCluster(c admissionv1.WebhookClientConfig) bool {
	if c.Service != nil {
		return true
	}
	if c.URL == nil {
		return false
	}
	at, err := url.Parse(*c.URL)
	return err == nil && egress.IsClusterName(at.Hostname())
}
