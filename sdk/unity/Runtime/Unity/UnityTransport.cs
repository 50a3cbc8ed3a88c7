using System;
using System.Collections;
using System.Text;
using UnityEngine;
using UnityEngine.Networking;

namespace Playmeter
{
    /// <summary>Sends requests with UnityWebRequest, in coroutines of a MonoBehaviour.</summary>
    public sealed class UnityTransport : ITransport
    {
        private const int TimeoutS = 30;
        private static readonly string[] ResponseHeaders = { "ETag", "Retry-After" };

        private readonly MonoBehaviour owner;

        public UnityTransport(MonoBehaviour owner)
        {
            this.owner = owner;
        }

        public void Send(TransportRequest request, Action<TransportResponse> done)
        {
            owner.StartCoroutine(Run(request, done));
        }

        private static IEnumerator Run(TransportRequest request, Action<TransportResponse> done)
        {
            using (var web = new UnityWebRequest(request.Url, request.Method))
            {
                web.timeout = TimeoutS;
                web.redirectLimit = 0;
                web.downloadHandler = new DownloadHandlerBuffer();
                if (request.Body != null)
                {
                    web.uploadHandler = new UploadHandlerRaw(Encoding.UTF8.GetBytes(request.Body));
                }
                foreach (var header in request.Headers)
                {
                    web.SetRequestHeader(header.Key, header.Value);
                }
                yield return web.SendWebRequest();
                var response = new TransportResponse { Status = (int)web.responseCode, Failure = web.error ?? "" };
                response.Body = web.downloadHandler.text;
                foreach (var name in ResponseHeaders)
                {
                    var value = web.GetResponseHeader(name);
                    if (value != null)
                    {
                        response.Headers[name.ToLowerInvariant()] = value;
                    }
                }
                done(response);
            }
        }
    }
}
