// Package simvolume owns the volumes of a local cluster, which hold nothing.
//
// It refuses to know about pods, nodes or files: a claim of the default storage
// class gets a volume object of the size it asks for, and a volume whose claim is
// gone goes as well.
//
// Data passes through like this: informers tell which claims and volumes changed;
// a claim without a volume gets one that names it, and the persistent volume controller
// of Kubernetes binds the two.
package simvolume

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// ClassName is the default storage class.
	ClassName = "standard"

	provisionerName = "plural.sh/simulated"
	explanation     = "simulated volume: nothing is stored"
	resync          = 30 * time.Second

	annotationDefaultClass  = "storageclass.kubernetes.io/is-default-class"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// Provisioner makes volumes for claims of the default storage class.
type Provisioner struct {
	Client kubernetes.Interface
	Log    *slog.Logger
}

// Run creates the storage class when it is missing and works until ctx ends.
func (p Provisioner) Run(ctx context.Context) error {
	if err := p.ensureClass(ctx); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(p.Client, resync)
	defer factory.Shutdown()
	if err := handle(ctx, p, factory.Core().V1().PersistentVolumeClaims().Informer(), p.provision); err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	if err := handle(ctx, p, factory.Core().V1().PersistentVolumes().Informer(), p.reclaim); err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

// handle calls act for each object that appears or changes. What fails is logged, and tried
// again with the informer's next resync.
func handle[T any](ctx context.Context, p Provisioner, informer cache.SharedIndexInformer, act func(context.Context, T) error) error {
	one := func(object any) {
		typed, ok := object.(T)
		if !ok {
			return
		}
		if err := act(ctx, typed); err != nil && ctx.Err() == nil {
			p.Log.Warn("volume will be tried again", "err", err)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    one,
		UpdateFunc: func(_, changed any) { one(changed) },
	})
	return err
}

func (p Provisioner) ensureClass(ctx context.Context) error {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        ClassName,
			Annotations: map[string]string{annotationDefaultClass: "true", provisionerName: explanation},
		},
		Provisioner:   provisionerName,
		ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete),
	}
	if _, err := p.Client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create storage class %s: %w", ClassName, err)
	}
	return nil
}

// provision makes a volume for a claim of our class that has none.
func (p Provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != ClassName ||
		claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return nil
	}
	if _, err := p.Client.CoreV1().PersistentVolumes().Create(ctx, newVolume(claim), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create volume for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// newVolume is named after the claim's UID, so that trying twice makes one volume.
func newVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Annotations: map[string]string{annotationProvisionedBy: provisionerName, provisionerName: explanation},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              ClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/simulated/" + string(claim.UID)},
			},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
}

// reclaim deletes a volume of ours whose claim is gone.
func (p Provisioner) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Annotations[annotationProvisionedBy] != provisionerName ||
		volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	if err := p.Client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete volume %s: %w", volume.Name, err)
	}
	return nil
}
