using System;
using System.Collections.Generic;

namespace Playmeter
{
    /// <summary>A request to the server.</summary>
    public sealed class TransportRequest
    {
        public string Method;
        /// <summary>The whole URL, with the query string.</summary>
        public string Url;
        /// <summary>UTF-8 text, or null.</summary>
        public string Body;
        public readonly Dictionary<string, string> Headers = new Dictionary<string, string>();
    }

    /// <summary>A response, or the lack of one.</summary>
    public sealed class TransportResponse
    {
        /// <summary>0 without a response.</summary>
        public int Status;
        public string Body = "";
        /// <summary>Header values by name in lower case.</summary>
        public readonly Dictionary<string, string> Headers = new Dictionary<string, string>();
        /// <summary>Why there is no response.</summary>
        public string Failure = "";
    }

    /// <summary>Sends requests. In Unity <c>UnityTransport</c>; tests and servers have their own.</summary>
    public interface ITransport
    {
        /// <summary>
        /// Sends a request without following redirects, which would send the key to another server. Calls
        /// <paramref name="done"/> once, on the thread that calls <c>PlaymeterClient.Tick</c>.
        /// </summary>
        void Send(TransportRequest request, Action<TransportResponse> done);
    }
}
